#include "stats/observers.hpp"

#include <algorithm>
#include <stdexcept>

#include "kernel/tile.hpp"
#include "pass/entropy_rounding.hpp"

namespace attn {

template <class T>
void RowObserver<T>::start(const Partition& partition) {
  if (partition.order != Order::row_panels) {
    throw std::logic_error("results by query need a pass by row panels");
  }
  values_.assign(static_cast<std::size_t>(partition.rows), 0.0);
}

template <class T>
void RowSums<T>::observe(const WeightTile<T>& tile, Index slot) {
  static_cast<void>(slot);
  for (Index i = 0; i < tile.range.rows; ++i) {
    double& sum = this->values_[static_cast<std::size_t>(tile.range.row0 + i)];
    for (Index j = 0; j < tile.range.cols; ++j) sum += static_cast<double>(tile.weights(i, j));
  }
}

template <class T>
void RowEntropy<T>::observe(const WeightTile<T>& tile, Index slot) {
  static_cast<void>(slot);
  for (Index i = 0; i < tile.range.rows; ++i) {
    this->values_[static_cast<std::size_t>(tile.range.row0 + i)] +=
        kernel::entropy_row(tile.weights.row(i), tile.range.cols);
  }
}

template <class T>
void RowEntropy<T>::row_entropies(Index first, Index count, const double* entropies) {
  std::copy_n(entropies, count, this->values_.begin() + first);
}

template <class T>
void RowEntropy<T>::finish() {
  round_entropies<T>(this->values_);
}

template class RowObserver<float>;
template class RowObserver<double>;
template class RowSums<float>;
template class RowSums<double>;
template class RowEntropy<float>;
template class RowEntropy<double>;

}  // namespace attn
