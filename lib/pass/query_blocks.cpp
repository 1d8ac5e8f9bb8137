#include "pass/query_blocks.hpp"

#include <algorithm>
#include <cmath>

#include "kernel/packed.hpp"
#include "kernel/tile.hpp"
#include "pass/completed_row.hpp"
#include "pass/one_pass.hpp"
#include "pass/own_panels.hpp"
#include "tensor/infinity.hpp"

namespace attn {

template <class T>
QueryBlocks<T>::Sums::Sums(const QueryBlocks& blocks, Index queries, MatrixView<T> out)
    : queries_(queries), second_out_(blocks.parts() > 1 ? out.rows * out.cols : 0) {
  const double begin = blocks.near_zero_ ? 0.0 : minus_infinity;
  const auto rows = static_cast<std::size_t>(queries);
  parts_.push_back({{PooledVector<double>(rows), 0}, out});
  if (blocks.parts() > 1) {
    T* const second = out.data == nullptr ? nullptr : second_out_.data();
    parts_.push_back({{PooledVector<double>(rows), begin}, {second, out.rows, out.cols}});
  }
  for (Part& part : parts_) set_to_zero(part.out);
}

template <class T>
void QueryBlocks<T>::Sums::visit(const std::function<void(std::span<std::byte> bytes)>& visit) {
  for (Part& part : parts_) {
    if (parts_.size() > 1) visit(std::as_writable_bytes(std::span(&part.total.level, 1)));
    visit(std::as_writable_bytes(std::span(part.total.values)));
    for (Index i = 0; i < part.out.rows; ++i) {
      const auto cols = static_cast<std::size_t>(part.out.cols);
      visit(std::as_writable_bytes(std::span(part.out.row(i), cols)));
    }
  }
}

template <class T>
QueryBlocks<T>::QueryBlocks(const Options& options) : options_(options) {
  const Partition& partition = options_.partition;
  own_ = {partition.first_line(options_.first_slot), partition.first_line(options_.last_slot)};
  keys_ = with_start_of_packed<T>(own_);
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
std::vector<LineNumbers> QueryBlocks<T>::state(bool complete) {
  std::vector<LineNumbers> state{LineNumbers::of(shift_), LineNumbers::of(sum_)};
  if (complete) state.push_back(LineNumbers::of(factor_));
  return state;
}

template <class T>
void QueryBlocks<T>::resume(bool complete, const Scores<T>& scores) {
  near_zero_ = scores.near_zero();
  if (complete) factor_.resize(sum_.size());
}

template <class T>
void QueryBlocks<T>::gather(const Scores<T>& scores, MatrixView<const T> values, Sums& block,
                            int threads) const {
  const Index slots = options_.last_slot - options_.first_slot;
  for (auto& part : block.parts_) {
    part.of_slots.resize(static_cast<std::size_t>(slots));
    for (ScaledSums& sums : part.of_slots) {
      sums.values.resize(static_cast<std::size_t>(block.queries_));
      sums.clear(&part == block.parts_.data() || near_zero_ ? 0.0 : minus_infinity);
    }
  }
  if (block.parts_[0].out.data != nullptr) {
    block.output_.emplace(values, block.parts_[0].out, options_.largest_value);
    Partition places = options_.partition;
    places.slots = place_of(slots, 0);  // the totals come first
    block.output_->start(places);
  }
  for_panels(threads, [&](Index n, RowRange keys, Work& work) {
    if (parts() > 1) find_unas_factors(n, keys, block, work);
    const double* const factors[] = {factor_.data() + place(keys.first), work.unas_factor.data()};
    const auto sums_of = [&](std::size_t part) {
      return &block.parts_[part].of_slots[static_cast<std::size_t>(n)];
    };
    for_tiles(scores, keys, work, [&](const TileRange& range, MatrixView<T> tile) {
      fill(scores, keys, range, tile, work);
      TileRange piece = range;
      for (Index i = 0; i < range.rows; i += column_piece_rows) {
        piece.row0 = range.row0 + i;
        piece.rows = std::min(column_piece_rows, range.rows - i);
        const MatrixView<const T> part = tile.row_range(i, piece.rows);
        add_row_sums(part, factors, piece.row0, *sums_of(0), parts() > 1 ? sums_of(1) : nullptr);
        for (std::size_t c = 0; block.output_ && c < block.parts_.size(); ++c) {
          block.output_->observe(WeightTile<T>{piece, part, factors[c]}, place_of(n, c));
        }
      }
    });
  });
}

// exp(s_ij − m_j)
template <class T>
void QueryBlocks<T>::fill(const Scores<T>& scores, RowRange keys, const TileRange& range,
                          MatrixView<T> tile, Work& work) const {
  if (near_zero_) {
    scores.fill_exponentials(range, tile, work.scratch, nullptr, nullptr);
    return;
  }
  work.unused.resize(static_cast<std::size_t>(keys.last - keys.first));
  scores.fill(range, tile, work.scratch);
  kernel::exp_columns(tile, nullptr, shift_.data() + place(keys.first), work.unused.data());
}

// The factors exp(m_j − M) of the keys of the next panel; M, the largest m_j of the slot so far,
// may grow here.
template <class T>
void QueryBlocks<T>::find_unas_factors(Index slot, RowRange keys, Sums& block, Work& work) const {
  const auto of_panel = [&](const PooledVector<double>& numbers) {
    return std::span(numbers).subspan(place(keys.first),
                                      static_cast<std::size_t>(keys.last - keys.first));
  };
  ScaledSums& sums = block.parts_[1].of_slots[static_cast<std::size_t>(slot)];
  const double by = raise_level(of_panel(shift_), of_panel(sum_), sums, work.unas_factor);
  if (by == 1 || !block.output_) return;
  work.rescale.assign(sums.values.size(), static_cast<T>(by));
  block.output_->scale_rows(0, block.queries_, work.rescale.data(), place_of(slot, 1));
}

template <class T>
void QueryBlocks<T>::add(Sums& block) const {
  for (std::size_t c = 0; c < block.parts_.size(); ++c) {
    auto& part = block.parts_[c];
    for (std::size_t n = 0; n < part.of_slots.size(); ++n) {
      const AddedBy by = add_sums(part.of_slots[n], part.total);
      if (!block.output_ || by.added == 0) continue;
      add_scaled<T>(block.output_->gathered(place_of(static_cast<Index>(n), c)), part.out, by);
    }
  }
}

template <class T>
PooledVector<Index> QueryBlocks<T>::complete_rows(Sums& block, std::span<double> row,
                                                  std::span<double> unas_row) const {
  PooledVector<Index> left;
  for (Index i = 0; i < block.queries_; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool done = std::all_of(block.parts_.begin(), block.parts_.end(), [&](const auto& part) {
      return part.total.values[at] >= smallest_row_sum;
    });
    if (!done) left.push_back(i);
  }
  for (std::size_t c = 0; c < block.parts_.size(); ++c) {
    const auto& part = block.parts_[c];
    const std::span<double> f = c == 0 ? row : unas_row;
    PooledVector<T> by(part.total.values.size());
    for (std::size_t i = 0; i < by.size(); ++i) {
      const CompletedRow completed =
          completed_row(part.total.level, part.total.values[i], options_.sink, 0, coefficient(c));
      f[i] = completed.f;
      by[i] = static_cast<T>(completed.factor);
    }
    for (const Index i : left) {
      f[static_cast<std::size_t>(i)] = minus_infinity;
      by[static_cast<std::size_t>(i)] = 0;
    }
    multiply_rows(part.out, by.data());
  }
  if (block.parts_.size() > 1) add_scaled<T>(block.parts_[1].out, block.parts_[0].out);
  if (block.output_) block.output_->finish();
  return left;
}

template <class T>
std::int64_t QueryBlocks<T>::bytes(const Sizes& sizes, int threads) {
  const auto element = static_cast<std::int64_t>(sizeof(T));
  constexpr auto number = static_cast<std::int64_t>(sizeof(double));
  const Index totals = sizes.slots == 0 ? 0 : 1 + sizes.slots;
  const std::int64_t packed = sizes.slots * kernel::Packed<T>::bytes(sizes.panel, sizes.v_head_dim);
  return 3 * sizes.keys * number +
         sizes.parts * (totals * sizes.queries * (number + sizes.v_head_dim * element) + packed) +
         threads * pass_tile_length * sizes.panel * (3 * element + 1);
}

template class QueryBlocks<float>;
template class QueryBlocks<double>;

}  // namespace attn
