#include "pass/weight_blocks.hpp"

#include <algorithm>

#include "kernel/tile.hpp"
#include "pass/own_panels.hpp"
#include "pass/potentials.hpp"
#include "pass/row_tiles.hpp"

namespace attn {

template <class T>
WeightBlocks<T>::WeightBlocks(const QueryPotentials& queries, MatrixView<T> out, T largest_value,
                              bool begins)
    : f_(to_subtract(queries.f)),
      unas_f_(to_subtract(queries.unas_f)),
      hybrid_(queries.hybrid),
      out_(out),
      largest_value_(largest_value),
      begins_(begins),
      partition_(row_tile_partition(out.rows, pass_tile_length)) {}

template <class T>
void WeightBlocks<T>::add(const Scores<T>& scores, MatrixView<const T> values,
                          std::span<const double> g, int threads) {
  if (output_) {
    output_->go_on(values);
  } else {
    output_.emplace(values, out_, largest_value_, begins_);
    output_->start(partition_);
  }
  PooledVector<double> subtracted = to_subtract(g);
  subtracted.resize(static_cast<std::size_t>(scores.cols()), 0.0);
  const auto show = [&](Index slot, Index panel, Work& work) {
    for_row_tiles(scores, partition_.lines(panel), pass_tile_length, false, work.tile,
                  [&](const TileRange& range, MatrixView<T> tile) {
                    fill(scores, range, subtracted, tile, work);
                    output_->observe(WeightTile<T>{range, tile}, slot);
                  });
  };
  for_panels_of_slots<Work>(partition_, 0, partition_.slots, threads, show);
}

template <class T>
void WeightBlocks<T>::fill(const Scores<T>& scores, const TileRange& range,
                           std::span<const double> g, MatrixView<T> tile, Work& work) const {
  scores.fill(range, tile, work.scratch);
  // The first part overwrites the scores, so it goes last.
  if (is_mixture()) {
    const PooledVector<double> zeros(static_cast<std::size_t>(range.cols), 0.0);
    work.second.reserve(range.rows * range.cols);
    for (Index i = 0; i < range.rows; ++i) {
      kernel::exp_row(work.second.data() + i * range.cols, tile.row(i), range.cols, zeros.data(),
                      unas_f_[static_cast<std::size_t>(range.row0 + i)]);
    }
  }
  for (Index i = 0; i < range.rows; ++i) {
    kernel::exp_row(tile.row(i), tile.row(i), range.cols, g.data() + range.col0,
                    f_[static_cast<std::size_t>(range.row0 + i)]);
    if (!is_mixture()) continue;
    kernel::scale_row(tile.row(i), range.cols, hybrid_);
    kernel::add_scaled_row(tile.row(i), work.second.data() + i * range.cols, range.cols,
                           1 - hybrid_);
  }
}

template <class T>
void WeightBlocks<T>::finish() {
  if (!output_ && !begins_) {
    // It goes on after the last block.
    output_.emplace(MatrixView<const T>(nullptr, 0, out_.cols), out_, largest_value_, false);
    output_->start(partition_);
  }
  if (output_) output_->finish();
}

template <class T>
std::int64_t WeightBlocks<T>::bytes(Index queries, Index keys, Index v_head_dim, bool mixture,
                                    int threads) {
  const auto element = static_cast<std::int64_t>(sizeof(T));
  // Weights of each part; bias, preference and mask.
  const std::int64_t pair = (mixture ? 2 : 1) * element + 2 * element + 1;
  return kernel::Packed<T>::bytes(keys, v_head_dim) +
         threads * row_tile_partition(queries, pass_tile_length).panel * pass_tile_length * pair +
         (2 * queries + keys) * static_cast<std::int64_t>(sizeof(double));
}

template class WeightBlocks<float>;
template class WeightBlocks<double>;

}  // namespace attn
