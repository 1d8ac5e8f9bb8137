#include "pass/query_blocks.hpp"

#include <algorithm>
#include <cmath>

#include "kernel/online_softmax.hpp"
#include "kernel/packed.hpp"
#include "kernel/tile.hpp"
#include "pass/one_pass.hpp"
#include "pass/own_panels.hpp"
#include "tensor/infinity.hpp"

namespace attn {

template <class T>
QueryBlocks<T>::Sums::Sums(Index queries, MatrixView<T> out)
    : totals_(static_cast<std::size_t>(queries), 0.0), out_(out) {
  set_to_zero(out_);
}

template <class T>
void QueryBlocks<T>::Sums::visit(const std::function<void(std::span<std::byte> bytes)>& visit) {
  visit(std::as_writable_bytes(std::span(totals_)));
  for (Index i = 0; i < out_.rows; ++i) {
    visit(std::as_writable_bytes(std::span(out_.row(i), static_cast<std::size_t>(out_.cols))));
  }
}

template <class T>
QueryBlocks<T>::QueryBlocks(const Options& options) : options_(options) {
  const Partition& partition = options_.partition;
  own_ = {partition.first_line(options_.first_slot), partition.first_line(options_.last_slot)};
  keys_ = {own_.first - own_.first % kernel::packed_width<T>(), own_.last};
  const auto count = static_cast<std::size_t>(own_.last - own_.first);
  shift_.assign(count, minus_infinity);
  sum_.assign(count, 0.0);
}

// Calls body(slot, lines of a panel, scratch) for the own panels; the slot is counted from the
// first own one.
template <class T>
template <class Body>
void QueryBlocks<T>::for_panels(int threads, const Body& body) const {
  for_panels_of_slots<Work>(options_.partition, options_.first_slot, options_.last_slot, threads,
                            [&](Index slot, Index panel, Work& work) {
                              body(slot - options_.first_slot, options_.partition.lines(panel),
                                   work);
                            });
}

// The tiles of one_pass_columns.
template <class T>
template <class Body>
void QueryBlocks<T>::for_tiles(const Scores<T>& scores, RowRange lines, Work& work,
                               const Body& body) const {
  TileRange range{0, 0, lines.first - keys_.first, lines.last - lines.first};
  work.panel.reserve(std::min(pass_tile_length, scores.rows()) * range.cols);
  for (; range.row0 < scores.rows(); range.row0 += pass_tile_length) {
    range.rows = std::min(pass_tile_length, scores.rows() - range.row0);
    if (!scores.empty(range)) body(range, MatrixView<T>(work.panel.data(), range.rows, range.cols));
  }
}

template <class T>
void QueryBlocks<T>::add(int round, const Scores<T>& scores, int threads) {
  near_zero_ = scores.near_zero();
  for_panels(threads, [&](Index, RowRange lines, Work& work) {
    double* const shift = shift_.data() + place(lines.first);
    double* const sum = sum_.data() + place(lines.first);
    for_tiles(scores, lines, work, [&](const TileRange& range, MatrixView<T> tile) {
      if (near_zero_) {
        scores.fill_exponentials(range, tile, work.scratch, nullptr, sum);
        return;
      }
      scores.fill(range, tile, work.scratch);
      if (round == 0) {
        kernel::column_max(tile, nullptr, shift);
      } else {
        kernel::exp_columns(tile, nullptr, shift, sum);
      }
    });
  });
}

template <class T>
void QueryBlocks<T>::end_round(int round) {
  // Near zero nothing is subtracted.
  if (round == 0) std::replace(shift_.begin(), shift_.end(), minus_infinity, 0.0);
}

template <class T>
void QueryBlocks<T>::complete_columns(std::span<double> col) {
  factor_.resize(sum_.size());
  for (std::size_t j = 0; j < sum_.size(); ++j) {
    const bool empty = sum_[j] == 0;
    col[j] = empty ? minus_infinity : shift_[j] + std::log(sum_[j]);
    factor_[j] = empty ? 0.0 : 1 / sum_[j];
  }
}

template <class T>
void QueryBlocks<T>::gather(const Scores<T>& scores, MatrixView<const T> values, Sums& block,
                            int threads) const {
  const Index rows = scores.rows();
  const Index slots = options_.last_slot - options_.first_slot;
  block.of_slots_ = Buffer<double>(slots * rows);
  std::fill(block.of_slots_.begin(), block.of_slots_.end(), 0.0);
  if (block.out_.data != nullptr) {
    block.output_.emplace(values, block.out_, options_.largest_value);
    Partition places = options_.partition;
    places.slots = 1 + slots;  // the totals come first
    block.output_->start(places);
  }
  for_panels(threads, [&](Index n, RowRange lines, Work& work) {
    const double* const factor = factor_.data() + place(lines.first);
    double* const sums = block.of_slots_.data() + n * rows;
    PooledVector<double> unused(static_cast<std::size_t>(lines.last - lines.first));
    for_tiles(scores, lines, work, [&](const TileRange& range, MatrixView<T> tile) {
      if (near_zero_) {
        scores.fill_exponentials(range, tile, work.scratch, nullptr, nullptr);
      } else {
        scores.fill(range, tile, work.scratch);
        kernel::exp_columns(tile, nullptr, shift_.data() + place(lines.first), unused.data());
      }
      TileRange piece = range;
      for (Index i = 0; i < range.rows; i += column_piece_rows) {
        piece.row0 = range.row0 + i;
        piece.rows = std::min(column_piece_rows, range.rows - i);
        const MatrixView<const T> part = tile.row_range(i, piece.rows);
        kernel::add_row_products(part, factor, sums + piece.row0);
        if (block.output_) block.output_->observe(WeightTile<T>{piece, part, factor}, 1 + n);
      }
    });
  });
}

template <class T>
void QueryBlocks<T>::add(Sums& block) const {
  const auto rows = static_cast<Index>(block.totals_.size());
  for (Index n = 0; n < options_.last_slot - options_.first_slot; ++n) {
    const double* const sums = block.of_slots_.data() + n * rows;
    for (Index i = 0; i < rows; ++i) block.totals_[static_cast<std::size_t>(i)] += sums[i];
    if (!block.output_) continue;
    const MatrixView<T> of_slot = block.output_->gathered(1 + n);
    for (Index i = 0; i < rows; ++i) {
      kernel::add_scaled_row(block.out_.row(i), of_slot.row(i), of_slot.cols, 1);
    }
  }
}

template <class T>
PooledVector<Index> QueryBlocks<T>::complete_rows(Sums& block, std::span<double> row) const {
  PooledVector<Index> left;
  PooledVector<T> by(block.totals_.size(), T{0});
  for (std::size_t i = 0; i < by.size(); ++i) {
    const double sum = block.totals_[i];
    if (!(sum >= smallest_row_sum)) {
      row[i] = minus_infinity;
      left.push_back(static_cast<Index>(i));
      continue;
    }
    row[i] = with_sink(std::log(sum), options_.sink);
    by[i] = static_cast<T>(options_.sink == no_sink ? 1 / sum : std::exp(-row[i]));
  }
  if (!block.output_) return left;
  block.output_->scale_rows(0, block.out_.rows, by.data(), 0);
  block.output_->finish();
  return left;
}

template <class T>
std::int64_t QueryBlocks<T>::bytes(Index queries, Index keys, Index slots, Index panel,
                                   Index v_head_dim, int threads) {
  const auto element = static_cast<std::int64_t>(sizeof(T));
  constexpr auto number = static_cast<std::int64_t>(sizeof(double));
  return 3 * keys * number + (slots + 1) * queries * (number + v_head_dim * element) +
         slots * kernel::Packed<T>::bytes(panel, v_head_dim) +
         threads * pass_tile_length * panel * (3 * element + 1);
}

template class QueryBlocks<float>;
template class QueryBlocks<double>;

}  // namespace attn
