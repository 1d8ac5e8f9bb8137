#include "stats/observers.hpp"

#include <stdexcept>

#include "kernel/tile.hpp"

namespace attn {

template <class T>
void ColumnSums<T>::start(const Partition& partition) {
  by_column_ = partition.order == Order::column_panels;
  sums_.assign(static_cast<std::size_t>(partition.cols), 0.0);
  slots_.clear();
  if (!by_column_) slots_.resize(static_cast<std::size_t>(partition.slots));
}

template <class T>
void ColumnSums<T>::observe(const WeightTile<T>& tile, Index slot) {
  if (by_column_) {
    kernel::add_columns(tile.weights, sums_.data() + tile.range.col0);
    return;
  }
  auto& sums = slots_[static_cast<std::size_t>(slot)];
  if (sums.empty()) sums.assign(sums_.size(), 0.0);
  kernel::add_columns(tile.weights, sums.data() + tile.range.col0);
}

template <class T>
void ColumnSums<T>::finish() {
  for (auto& slot : slots_) {
    for (std::size_t j = 0; j < slot.size(); ++j) sums_[j] += slot[j];
  }
  slots_.clear();
}

template <class T>
std::int64_t ColumnSums<T>::bytes(const Partition& partition) {
  const Index vectors = 1 + (partition.order == Order::row_panels ? partition.slots : 0);
  return vectors * partition.cols * static_cast<Index>(sizeof(double));
}

template <class T>
void RowObserver<T>::start(const Partition& partition) {
  if (partition.order != Order::row_panels) {
    throw std::logic_error("what is kept by query is gathered from row panels");
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

template class ColumnSums<float>;
template class ColumnSums<double>;
template class RowObserver<float>;
template class RowObserver<double>;
template class RowSums<float>;
template class RowSums<double>;
template class RowEntropy<float>;
template class RowEntropy<double>;

}  // namespace attn
