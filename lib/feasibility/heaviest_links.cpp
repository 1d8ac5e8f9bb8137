#include "feasibility/heaviest_links.hpp"

#include <stdexcept>

namespace attn {
namespace {

// Ties are broken by index, so that the order does not matter.
void take(Link& best, double weight, Index other) {
  if (weight > best.weight || (weight == best.weight && weight > 0 && other < best.other)) {
    best = {weight, other};
  }
}

}  // namespace

template <class T>
void HeaviestLinks<T>::start(const Partition& partition) {
  if (partition.order != Order::row_panels) {
    throw std::logic_error("results by query need a pass by row panels");
  }
  rows_.assign(row_part_.size(), Link{});
  cols_.assign(col_part_.size(), Link{});
  cols_of_slot_.assign(static_cast<std::size_t>(partition.slots), {});
}

template <class T>
void HeaviestLinks<T>::observe(const WeightTile<T>& tile, Index slot) {
  const auto row0 = static_cast<std::size_t>(tile.range.row0);
  const auto col0 = static_cast<std::size_t>(tile.range.col0);
  PooledVector<Link>& all_cols = cols_of_slot_[static_cast<std::size_t>(slot)];
  if (all_cols.empty()) all_cols.assign(cols_.size(), Link{});
  const std::span<Link> cols =
      std::span(all_cols).subspan(col0, static_cast<std::size_t>(tile.range.cols));
  for (std::size_t i = row0; i < row0 + static_cast<std::size_t>(tile.range.rows); ++i) {
    const T* weights = tile.weights.row(static_cast<Index>(i - row0));
    for (std::size_t j = 0; j < cols.size(); ++j) {
      if (!(weights[j] > 0) || row_part_[i] == col_part_[col0 + j]) continue;
      take(rows_[i], weights[j], static_cast<Index>(col0 + j));
      take(cols[j], weights[j], static_cast<Index>(i));
    }
  }
}

template <class T>
void HeaviestLinks<T>::share(const SlotShare& share) {
  share.complete_lines(std::span<Link>(rows_));
  share.complete_slots([&](Index slot, const RankShare::Visit& visit) {
    PooledVector<Link>& cols = cols_of_slot_[static_cast<std::size_t>(slot)];
    cols.resize(cols_.size());
    visit(std::as_writable_bytes(std::span(cols)));
  });
}

template <class T>
void HeaviestLinks<T>::finish() {
  for (const PooledVector<Link>& cols : cols_of_slot_) {
    for (std::size_t j = 0; j < cols.size(); ++j) {
      if (cols[j].weight > 0) take(cols_[j], cols[j].weight, cols[j].other);
    }
  }
}

template <class T>
std::int64_t HeaviestLinks<T>::bytes(const Partition& partition) {
  return (partition.rows + (partition.slots + 1) * partition.cols) *
         static_cast<std::int64_t>(sizeof(Link));
}

template class HeaviestLinks<float>;
template class HeaviestLinks<double>;

}  // namespace attn
