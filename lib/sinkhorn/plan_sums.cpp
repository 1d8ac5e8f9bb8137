#include "sinkhorn/plan_sums.hpp"

#include <stdexcept>

#include "kernel/tile.hpp"

namespace attn {
template <class T>
void PlanSums<T>::start(const Partition& partition) {
  if (partition.order != Order::row_panels) {
    throw std::logic_error("results by query need a pass by row panels");
  }
  cols_.start(partition);
  ones_.assign(static_cast<std::size_t>(partition.cols), T{1});
  rows_.assign(static_cast<std::size_t>(partition.rows), 0.0);
  row_scores_ = rows_;
}

template <class T>
void PlanSums<T>::observe(const WeightTile<T>& tile, Index slot) {
  cols_.observe(tile, slot);
  Buffer<T> storage(tile.range.rows * tile.range.cols);
  typename Scores<T>::Scratch scratch;
  const MatrixView<T> scores(storage.data(), tile.range.rows, tile.range.cols);
  scores_.fill(tile.range, scores, scratch);
  for (Index i = 0; i < tile.range.rows; ++i) {
    const auto at = static_cast<std::size_t>(tile.range.row0 + i);
    const T* weights = tile.weights.row(i);
    // In float64 like the columns: the certificate requires the same total of both.
    rows_[at] += kernel::weighted_sum(weights, ones_.data(), tile.range.cols);
    row_scores_[at] += kernel::weighted_sum(weights, scores.row(i), tile.range.cols);
  }
}

template <class T>
void PlanSums<T>::share(const SlotShare& share) {
  cols_.share(share);
  share.complete_lines(std::span<double>(rows_));
  share.complete_lines(std::span<double>(row_scores_));
}

template <class T>
void PlanSums<T>::finish() {
  cols_.finish();
  score_ = 0;
  for (const double score : row_scores_) score_ += score;
}

template <class T>
std::int64_t PlanSums<T>::bytes(const Partition& partition, int threads) {
  return ColumnSums<T>::bytes(partition) + partition.cols * static_cast<Index>(sizeof(T)) +
         2 * partition.rows * static_cast<Index>(sizeof(double)) +
         threads * partition.panel * pass_tile_length * static_cast<Index>(3 * sizeof(T) + 1);
}

template class PlanSums<float>;
template class PlanSums<double>;

}  // namespace attn
