#include "pass/key_blocks.hpp"

#include <algorithm>

#include "kernel/online_softmax.hpp"
#include "pass/own_panels.hpp"

namespace attn {

template <class T>
KeyBlocks<T>::KeyBlocks(const Options& options)
    : options_(options), first_panel_(options.partition.first_panel(options.first_slot)) {
  const Partition& partition = options_.partition;
  const Index end = partition.first_panel(options_.last_slot);
  queries_ = {partition.first_line(options.first_slot), partition.first_line(options.last_slot)};
  count_ = end - first_panel_;
}

template <class T>
void KeyBlocks<T>::start(PooledVector<RunningRows<T>>& panels, bool near_zero) const {
  panels.resize(static_cast<std::size_t>(count_));
  for (Index n = 0; n < count_; ++n) {
    const RowRange lines = own_lines(first_panel_ + n);
    panels[static_cast<std::size_t>(n)].start(lines.last - lines.first, near_zero);
  }
}

template <class T>
RowRange KeyBlocks<T>::own_lines(Index panel) const {
  const RowRange lines = options_.partition.lines(panel);
  return {lines.first - queries_.first, lines.last - queries_.first};
}

// Calls body(slot, panel, its place among the own ones, scratch).
template <class T>
template <class Body>
void KeyBlocks<T>::for_panels(int threads, const Body& body) const {
  for_panels_of_slots<Work>(options_.partition, options_.first_slot, options_.last_slot, threads,
                            [&](Index slot, Index panel, Work& work) {
                              body(slot, panel, static_cast<std::size_t>(panel - first_panel_),
                                   work);
                            });
}

// The tiles of run_rows with something allowed.
template <class T>
template <class Body>
void KeyBlocks<T>::for_tiles(const Scores<T>& scores, RowRange lines, Work& work,
                             const Body& body) const {
  TileRange range{lines.first, lines.last - lines.first, 0, 0};
  work.tile.reserve(range.rows * std::min(row_tile_cols, scores.cols()));
  for (range.col0 = 0; range.col0 < scores.cols(); range.col0 += row_tile_cols) {
    range.cols = std::min(row_tile_cols, scores.cols() - range.col0);
    const Index used = scores.cols_in_use(range);
    range.cols = std::min(range.cols, (used + row_tile_step - 1) / row_tile_step * row_tile_step);
    if (!scores.empty(range)) body(range, MatrixView<T>(work.tile.data(), range.rows, range.cols));
  }
}

template <class T>
void KeyBlocks<T>::add(const Scores<T>& scores, MatrixView<const T> values, int threads) {
  if (panels_.empty()) start(panels_, takes_plain_exponentials(scores));
  if (output_) {
    output_->go_on(values);
  } else if (options_.out.data != nullptr) {
    output_.emplace(values, options_.out, options_.largest_value);
    output_->start(options_.partition);
  }
  for_panels(threads, [&](Index slot, Index panel, std::size_t place, Work& work) {
    RunningRows<T>& rows = panels_[place];
    for_tiles(scores, own_lines(panel), work, [&](const TileRange& range, MatrixView<T> tile) {
      const bool grown = rows.add(scores, range, tile, work.scratch, options_.entropies);
      if (!output_) return;
      if (grown) output_->scale_rows(range.row0, range.rows, rows.factor.data(), slot);
      output_->observe(WeightTile<T>{range, tile}, slot);
    });
  });
}

template <class T>
void KeyBlocks<T>::complete(std::span<double> row, std::span<double> entropy) {
  for (std::size_t place = 0; place < panels_.size(); ++place) {
    RunningRows<T>& rows = panels_[place];
    const Index first = own_lines(first_panel_ + static_cast<Index>(place)).first;
    const auto count = static_cast<Index>(rows.sum.size());
    rows.complete(options_.sink, row.data() + first);
    if (output_) output_->scale_rows(first, count, rows.factor.data(), 0);
    if (!options_.entropies) continue;
    rows.find_entropies(options_.sink, row.data() + first);
    std::copy(rows.product.begin(), rows.product.end(), entropy.begin() + first);
  }
  if (output_) output_->finish();
}

template <class T>
Buffer<double> KeyBlocks<T>::column_sums(const Scores<T>& scores, int threads) {
  const Index cols = scores.cols();
  Buffer<double> sums((options_.last_slot - options_.first_slot) * cols);
  std::fill(sums.begin(), sums.end(), 0.0);
  if (again_.empty()) start(again_, takes_plain_exponentials(scores));
  for_panels(threads, [&](Index slot, Index panel, std::size_t place, Work& work) {
    const RunningRows<T>& whole = panels_[place];
    RunningRows<T>& rows = again_[place];
    double* const of_slot = sums.data() + (slot - options_.first_slot) * cols;
    work.factor.resize(rows.sum.size());
    for_tiles(scores, own_lines(panel), work, [&](const TileRange& range, MatrixView<T> tile) {
      rows.add(scores, range, tile, work.scratch, false);
      for (std::size_t i = 0; i < work.factor.size(); ++i) {
        work.factor[i] = whole.factor_since(i, rows.max[i]);
      }
      kernel::add_scaled_columns(tile, work.factor.data(), of_slot + range.col0);
    });
  });
  return sums;
}

template <class T>
std::int64_t KeyBlocks<T>::bytes(Index queries, Index keys, Index slots, Index v_head_dim,
                                 bool column_sums, int threads) {
  const auto element = static_cast<std::int64_t>(sizeof(T));
  constexpr auto number = static_cast<std::int64_t>(sizeof(double));
  const std::int64_t rows = queries * 2 * (element + number);
  // Exponentials; bias, preference and mask of a tile.
  const std::int64_t tile = row_tile_partition(queries, keys).panel * row_tile_cols;
  return (column_sums ? 2 * rows + slots * keys * number : rows) +
         kernel::Packed<T>::bytes(keys, v_head_dim) + threads * tile * (3 * element + 1);
}

template class KeyBlocks<float>;
template class KeyBlocks<double>;

}  // namespace attn
