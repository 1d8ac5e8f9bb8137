#include "sinkhorn/column_potentials.hpp"

#include <algorithm>
#include <cmath>

#include "kernel/tile.hpp"
#include "parallel/parallel_for.hpp"
#include "parallel/rank_share.hpp"
#include "pass/pass.hpp"
#include "pass/potentials.hpp"
#include "pass/rank_rows.hpp"
#include "sinkhorn/iteration_range.hpp"
#include "tensor/buffer.hpp"
#include "tensor/infinity.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

constexpr Index strip_keys = 64;
// Strips of a thread between two messages.
constexpr Index strips_at_once = 4;

template <class T>
class ColumnsByRows {
 public:
  ColumnsByRows(const Scores<T>& scores, std::span<const double> row, int threads)
      : scores_(scores),
        row_(to_subtract(row)),
        threads_(threads),
        ranks_(*Ranks::current()),
        workspaces_(workspaces_for<Work>(threads)),
        shift_(static_cast<std::size_t>(scores.cols()), minus_infinity),
        sum_(static_cast<std::size_t>(scores.cols()), 0.0) {
    const Index steps = (scores.rows() + held_row_step - 1) / held_row_step;
    const auto share = RankShare::of_held_rows(steps);
    if (share.own_count() == 0) return;
    rows_.first = share.own_item(0) * held_row_step;
    rows_.last = std::min(scores.rows(), rows_.first + share.own_count() * held_row_step);
  }

  void run(std::span<double> col, std::span<const double> log_marginals) {
    find_shifts();
    find_sums();
    for (std::size_t j = 0; j < col.size(); ++j) {
      const double log_b = log_marginal(log_marginals, static_cast<Index>(j));
      const bool empty = sum_[j] == 0 || log_b == minus_infinity;
      col[j] = empty ? minus_infinity : shift_[j] + std::log(sum_[j]) - log_b;
    }
  }

 private:
  struct Work {
    Buffer<T> tile;
    typename Scores<T>::Scratch scratch;
  };

  // Calls body(tile, f, first key) for the tiles of the own rows and keys [first, last).
  template <class Body>
  void for_tiles(Index first, Index last, const Body& body) {
    const Index strips = (last - first + strip_keys - 1) / strip_keys;
    parallel_for(strips, threads_, [&](Index strip, int worker) {
      Work& work = workspaces_[static_cast<std::size_t>(worker)];
      const Index key = first + strip * strip_keys;
      const Index keys = std::min(strip_keys, last - key);
      work.tile.reserve(pass_tile_length * strip_keys);
      for (Index i = rows_.first; i < rows_.last; i += pass_tile_length) {
        const TileRange range{i, std::min(pass_tile_length, rows_.last - i), key, keys};
        if (scores_.empty(range)) continue;
        const MatrixView<T> tile(work.tile.data(), range.rows, range.cols);
        scores_.fill(range, tile, work.scratch);
        body(tile, row_.empty() ? nullptr : row_.data() + i, static_cast<std::size_t>(key));
      }
    });
  }

  // The largest s_ij − f_i of all ranks' rows; 0 where nothing is allowed.
  void find_shifts() {
    PooledVector<double> own(shift_.size(), minus_infinity);
    for_tiles(0, scores_.cols(), [&](MatrixView<T> tile, const double* f, std::size_t key) {
      kernel::column_max(tile, f, own.data() + key);
    });
    const RankShare by_rank(ranks_.count(), &ranks_);
    const auto memory = [&](const RankShare::Visit& visit) {
      visit(std::as_writable_bytes(std::span(shift_)));
    };
    by_rank.add_in_turn(ranks_.own(), memory, [&] {
      for (std::size_t j = 0; j < own.size(); ++j) shift_[j] = std::max(shift_[j], own[j]);
    });
    by_rank.take_totals(memory);
    std::replace(shift_.begin(), shift_.end(), minus_infinity, 0.0);
  }

  // In the order of the rows: each rank adds to the sums of those before it.
  void find_sums() {
    const RankShare by_rank(ranks_.count(), &ranks_);
    const Index at_once = strip_keys * strips_at_once * std::max(1, threads_);
    for (Index first = 0; first < scores_.cols(); first += at_once) {
      const Index last = std::min(scores_.cols(), first + at_once);
      const auto sums = std::span(sum_).subspan(static_cast<std::size_t>(first),
                                                static_cast<std::size_t>(last - first));
      by_rank.add_in_turn(
          ranks_.own(), [&](const RankShare::Visit& visit) { visit(std::as_writable_bytes(sums)); },
          [&] {
            for_tiles(first, last, [&](MatrixView<T> tile, const double* f, std::size_t key) {
              kernel::exp_columns(tile, f, shift_.data() + key, sum_.data() + key);
            });
          });
    }
    by_rank.take_totals(
        [&](const RankShare::Visit& visit) { visit(std::as_writable_bytes(std::span(sum_))); });
  }

  const Scores<T>& scores_;
  const PooledVector<double> row_;  // as subtracted
  const int threads_;
  Ranks& ranks_;
  RowRange rows_;  // of this process: sums are cut where float32 moves to float64
  PooledVector<Work> workspaces_;
  PooledVector<double> shift_;
  PooledVector<double> sum_;
};

}  // namespace

template <class T>
void column_potentials(const Scores<T>& scores, std::span<double> row, std::span<double> col,
                       std::span<const double> log_marginal, int threads) {
  const bool by_rows = Ranks::current() != nullptr && Ranks::rows() == Ranks::Rows::neighbouring &&
                       scores.terms().energy->same_in_any_range();
  if (by_rows) return ColumnsByRows<T>(scores, row, threads).run(col, log_marginal);
  Pass<T> pass;
  pass.scores = &scores;
  pass.order = Order::column_panels;
  pass.completes = Completes::columns;
  pass.components = {Component{1, row, col}};
  pass.log_marginal = log_marginal;
  run(pass, threads);
}

template void column_potentials(const Scores<float>&, std::span<double>, std::span<double>,
                                std::span<const double>, int);
template void column_potentials(const Scores<double>&, std::span<double>, std::span<double>,
                                std::span<const double>, int);

}  // namespace attn
