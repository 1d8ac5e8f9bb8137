#include "pass/weight_blocks.hpp"

#include <algorithm>

#include "kernel/tile.hpp"
#include "pass/own_panels.hpp"
#include "pass/potentials.hpp"

namespace attn {
namespace {

template <class T>
struct WeightScratch {
  Buffer<T> tile;
  typename Scores<T>::Scratch scratch;
};

}  // namespace

template <class T>
WeightBlocks<T>::WeightBlocks(std::span<const double> f, MatrixView<T> out, T largest_value)
    : f_(to_subtract(f)),
      out_(out),
      largest_value_(largest_value),
      partition_(row_tile_partition(out.rows, pass_tile_length)) {}

template <class T>
void WeightBlocks<T>::add(const Scores<T>& scores, MatrixView<const T> values,
                          std::span<const double> g, int threads) {
  if (output_) {
    output_->go_on(values);
  } else {
    output_.emplace(values, out_, largest_value_);
    output_->start(partition_);
  }
  const PooledVector<double> subtracted = to_subtract(g);
  const auto show = [&](Index slot, Index panel, WeightScratch<T>& work) {
    const RowRange lines = partition_.lines(panel);
    TileRange range{lines.first, lines.last - lines.first, 0, 0};
    work.tile.reserve(range.rows * std::min(pass_tile_length, scores.cols()));
    for (; range.col0 < scores.cols(); range.col0 += pass_tile_length) {
      range.cols = std::min(pass_tile_length, scores.cols() - range.col0);
      if (scores.empty(range)) continue;
      const MatrixView<T> tile(work.tile.data(), range.rows, range.cols);
      scores.fill(range, tile, work.scratch);
      for (Index i = 0; i < range.rows; ++i) {
        kernel::exp_row(tile.row(i), tile.row(i), range.cols, subtracted.data() + range.col0,
                        f_[static_cast<std::size_t>(range.row0 + i)]);
      }
      output_->observe(WeightTile<T>{range, tile}, slot);
    }
  };
  for_panels_of_slots<WeightScratch<T>>(partition_, 0, partition_.slots, threads, show);
}

template <class T>
void WeightBlocks<T>::finish() {
  if (output_) output_->finish();
}

template class WeightBlocks<float>;
template class WeightBlocks<double>;

}  // namespace attn
