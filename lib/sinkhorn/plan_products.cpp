#include "sinkhorn/plan_products.hpp"

#include <stdexcept>

#include "kernel/gradient.hpp"
#include "kernel/tile.hpp"
#include "tensor/buffer.hpp"

namespace attn {

template <class T>
void PlanProducts<T>::start(const Partition& partition) {
  if (partition.order != Order::row_panels) {
    throw std::logic_error("products of a plan need a pass by row panels");
  }
  rows_.assign(static_cast<std::size_t>(partition.rows), 0.0);
  cols_.start(partition);
}

template <class T>
void PlanProducts<T>::observe(const WeightTile<T>& tile, Index slot) {
  const TileRange& range = tile.range;
  double* const cols = cols_.of(slot).data() + range.col0;
  double* const rows = rows_.data() + range.row0;
  if (g_ != nullptr) {
    Buffer<T> storage(range.rows * range.cols);
    const MatrixView<T> g(storage.data(), range.rows, range.cols);
    g_->read(range, g);
    for (Index i = 0; i < range.rows; ++i) {
      rows[i] += kernel::weighted_sum(tile.weights.row(i), g.row(i), range.cols);
    }
    kernel::Adjoint<T> terms;
    terms.g = g;
    kernel::add_adjoint_columns(tile.weights, terms, cols);
  }
  for (Index i = 0; !y_.empty() && i < range.rows; ++i) {
    rows[i] += kernel::dot_row(tile.weights.row(i), y_.data() + range.col0, range.cols);
  }
  if (!x_.empty()) kernel::add_weighted_columns(tile.weights, x_.data() + range.row0, cols);
}

template <class T>
void PlanProducts<T>::share(const SlotShare& share) {
  share.complete_lines(std::span<double>(rows_));
  cols_.share(share);
}

template <class T>
std::int64_t PlanProducts<T>::bytes(const Partition& partition, int threads) {
  return ColumnSlots::bytes(partition) + partition.rows * static_cast<Index>(sizeof(double)) +
         threads * partition.panel * pass_tile_length * static_cast<Index>(sizeof(T));
}

template class PlanProducts<float>;
template class PlanProducts<double>;

}  // namespace attn
