#include "scheme/output.hpp"

#include <algorithm>
#include <stdexcept>

#include "kernel/gemm.hpp"

namespace attn {

template <class T>
void Output<T>::start(const Partition& partition) {
  if (partition.order != Order::row_panels) {
    throw std::logic_error("the output is gathered from row panels");
  }
  for (Index i = 0; i < out_.rows; ++i) std::fill_n(out_.row(i), out_.cols, T{0});
}

template <class T>
void Output<T>::observe(const WeightTile<T>& tile, Index slot) {
  static_cast<void>(slot);
  kernel::multiply_add(tile.weights, v_.row_range(tile.range.col0, tile.range.cols),
                       out_.row_range(tile.range.row0, tile.range.rows));
}

template class Output<float>;
template class Output<double>;

}  // namespace attn
