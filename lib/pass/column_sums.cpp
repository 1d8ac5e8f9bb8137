#include "pass/column_sums.hpp"

#include <span>

#include "kernel/online_softmax.hpp"
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
  PooledVector<double>& sums = by_column_ ? sums_ : slots_[static_cast<std::size_t>(slot)];
  if (sums.empty()) sums.assign(sums_.size(), 0.0);
  double* first = sums.data() + tile.range.col0;
  if (tile.row_factor == nullptr) {
    kernel::add_columns(tile.weights, first);
  } else {
    kernel::add_scaled_columns(tile.weights, tile.row_factor, first);
  }
}

template <class T>
void ColumnSums<T>::share(const SlotShare& share) {
  if (by_column_) return share.complete_lines(std::span<double>(sums_));
  share.complete_slots([&](Index slot, const kernel::RankShare::Visit& visit) {
    PooledVector<double>& sums = slots_[static_cast<std::size_t>(slot)];
    sums.resize(sums_.size());
    visit(std::as_writable_bytes(std::span<double>(sums)));
  });
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

template class ColumnSums<float>;
template class ColumnSums<double>;

}  // namespace attn
