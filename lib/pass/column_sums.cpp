#include "pass/column_sums.hpp"

#include <span>

#include "kernel/online_softmax.hpp"
#include "kernel/tile.hpp"

namespace attn {

template <class T>
void ColumnSums<T>::start(const Partition& partition) {
  by_column_ = partition.order == Order::column_panels;
  sums_.start(partition);
}

template <class T>
void ColumnSums<T>::observe(const WeightTile<T>& tile, Index slot) {
  double* first =
      (by_column_ ? std::span(sums_.values()) : sums_.of(slot)).data() + tile.range.col0;
  if (tile.row_factor == nullptr) {
    kernel::add_columns(tile.weights, first);
  } else {
    kernel::add_scaled_columns(tile.weights, tile.row_factor, first);
  }
}

template <class T>
void ColumnSums<T>::share(const SlotShare& share) {
  if (by_column_) return share.complete_lines(std::span<double>(sums_.values()));
  sums_.share(share);
}

template <class T>
void ColumnSums<T>::finish() {
  sums_.finish();
}

template <class T>
std::int64_t ColumnSums<T>::bytes(const Partition& partition) {
  if (partition.order == Order::row_panels) return ColumnSlots::bytes(partition);
  return partition.cols * static_cast<Index>(sizeof(double));
}

template class ColumnSums<float>;
template class ColumnSums<double>;

}  // namespace attn
