#include "pass/key_blocks.hpp"

#include <algorithm>

#include "kernel/online_softmax.hpp"
#include "kernel/tile.hpp"
#include "pass/entropy_rounding.hpp"
#include "pass/own_panels.hpp"
#include "pass/pass_blocks.hpp"
#include "pass/row_tiles.hpp"
#include "pass/running_blocks.hpp"

namespace attn {

template <class T>
std::unique_ptr<KeyBlocks<T>> KeyBlocks<T>::make(const Options& options) {
  if (options.near_zero) return std::make_unique<RunningBlocks<T>>(options);
  return std::make_unique<PassBlocks<T>>(options);
}

template <class T>
KeyBlocks<T>::KeyBlocks(const Options& options, Index tile_cols, bool trimmed)
    : options_(options),
      queries_{options.partition.first_line(options.first_slot),
               options.partition.first_line(options.last_slot)},
      first_panel_(options.partition.first_panel(options.first_slot)),
      panels_(options.partition.first_panel(options.last_slot) - first_panel_),
      tile_cols_(tile_cols),
      trimmed_(trimmed) {
  if (options.entropies) entropy_.assign(static_cast<std::size_t>(own_queries()), 0.0);
}

template <class T>
RowRange KeyBlocks<T>::own_lines(Index panel) const {
  const RowRange lines = options_.partition.lines(first_panel_ + panel);
  return {lines.first - queries_.first, lines.last - queries_.first};
}

// Calls body(tile, scratch) for the tiles with something allowed: those of a slot in order.
template <class T>
template <class Body>
void KeyBlocks<T>::for_tiles(Index key, const Scores<T>& scores, int threads,
                             const Body& body) const {
  const auto run_panel = [&](Index slot, Index panel, Work& work) {
    const Index own = panel - first_panel_;
    for_row_tiles(scores, own_lines(own), tile_cols_, trimmed_, work.tile,
                  [&](const TileRange& range, MatrixView<T> tile) {
                    body(Tile{scores, range, key + range.col0, own, slot, tile}, work);
                  });
  };
  for_panels_of_slots<Work>(options_.partition, options_.first_slot, options_.last_slot, threads,
                            run_panel);
}

template <class T>
void KeyBlocks<T>::take_values(MatrixView<const T> values, bool begins) {
  if (output_) {
    output_->go_on(values);
  } else if (options_.out.data != nullptr) {
    output_.emplace(values, options_.out, options_.largest_value, begins);
    output_->start(options_.partition);
  }
}

template <class T>
void KeyBlocks<T>::add(int round, Index key, const Scores<T>& scores, MatrixView<const T> values,
                       int threads) {
  if (round == next_round_) start_round(next_round_++, scores);
  if (!gathers_weights()) take_values(values);
  for_tiles(key, scores, threads,
            [&](const Tile& tile, Work& work) { add_tile(round, tile, work); });
}

template <class T>
void KeyBlocks<T>::resume(int round, const Scores<T>& scores, MatrixView<const T> values) {
  while (next_round_ <= round) start_round(next_round_++, scores);
  if (!gathers_weights() || round == rounds()) take_values(values, false);
}

template <class T>
void KeyBlocks<T>::complete(std::span<double> row, std::span<double> unas_row) {
  if (next_round_ == 0) return;
  for (Index panel = 0; panel < panels_; ++panel) {
    const Index first = own_lines(panel).first;
    complete_panel(panel, row.data() + first, is_mixture() ? unas_row.data() + first : nullptr);
  }
}

template <class T>
Buffer<double> KeyBlocks<T>::show(Index key, const Scores<T>& scores, MatrixView<const T> values,
                                  int threads) {
  if (rounds() == next_round_) start_round(next_round_++, scores);
  if (gathers_weights()) take_values(values);
  const Index cols = scores.cols();
  Buffer<double> sums(options_.column_sums ? (options_.last_slot - options_.first_slot) * cols : 0);
  std::fill(sums.begin(), sums.end(), 0.0);
  for_tiles(key, scores, threads, [&](const Tile& tile, Work& work) {
    const MatrixView<T> weights = tile.view;
    const T* const factor = fill_weights(tile, work);
    if (options_.column_sums) {
      double* const of_slot =
          sums.data() + (tile.slot - options_.first_slot) * cols + tile.range.col0;
      if (factor != nullptr) {
        kernel::add_scaled_columns(weights, factor, of_slot);
      } else {
        kernel::add_columns(weights, of_slot);
      }
    }
    if (gathers_weights() && output_) {
      output_->observe(WeightTile<T>{tile.range, weights, nullptr, factor}, tile.slot);
    }
    if (!sums_entropies()) return;
    for (Index i = 0; i < weights.rows; ++i) {
      if (factor != nullptr) {
        kernel::scale_row(weights.row(i), weights.cols, static_cast<double>(factor[i]));
      }
      entropy_[static_cast<std::size_t>(tile.range.row0 + i)] +=
          kernel::entropy_row(weights.row(i), weights.cols);
    }
  });
  return sums;
}

template <class T>
void KeyBlocks<T>::finish(std::span<double> entropy) {
  if (output_) output_->finish();
  round_entropies<T>(entropy_);
  std::copy(entropy_.begin(), entropy_.end(), entropy.begin());
}

template <class T>
std::int64_t KeyBlocks<T>::bytes(const Sizes& sizes, int threads) {
  const auto element = static_cast<std::int64_t>(sizeof(T));
  constexpr auto number = static_cast<std::int64_t>(sizeof(double));
  // Maxima, factors, sums and products, and once more where they are found again; entropies.
  const std::int64_t line = (sizes.shows_weights ? 2 : 1) * 2 * (element + number) + number;
  const std::int64_t sums = sizes.column_sums ? sizes.slots * sizes.keys * number : 0;
  // Exponentials; bias, preference and mask of a tile.
  const Index tile_cols = sizes.near_zero ? row_tile_cols : pass_tile_length;
  const std::int64_t tile = sizes.panel * tile_cols * ((2 + sizes.parts) * element + 1);
  return sizes.parts * sizes.queries * line + sums + sizes.all_keys * number +
         kernel::Packed<T>::bytes(sizes.keys, sizes.v_head_dim) + threads * tile;
}

template class KeyBlocks<float>;
template class KeyBlocks<double>;

}  // namespace attn
