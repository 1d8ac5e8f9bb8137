#include "sinkhorn/network_simplex.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "kernel/tile.hpp"
#include "parallel/stop_flag.hpp"
#include "sinkhorn/basis_tree.hpp"
#include "tensor/buffer.hpp"
#include "tensor/infinity.hpp"

namespace attn {
namespace {

// The unit of scores is the largest potential times 2^-unit_bits or so. Potentials may grow to
// 2^most_bits units before a larger unit is needed; sums then have one bit to spare.
constexpr int unit_bits = 46;
constexpr int most_bits = 52;

// A unit that was made for potentials far beyond those of the solution, by 2^wasted_bits, is made
// anew, at most `most_finer_units` times.
constexpr int wasted_bits = 8;
constexpr int most_finer_units = 3;

// A step through all rows whose neighbours in time are far apart: neighbouring rows are often
// similar, and would offer one column after the other (with sorted points on a line, 70 times as
// slow).
Index distant_step(Index rows) {
  auto step = static_cast<Index>(0.618 * static_cast<double>(rows)) + 1;
  while (std::gcd(step, rows) > 1) ++step;
  return step;
}

template <class T>
class NetworkSimplex {
 public:
  NetworkSimplex(MatrixView<T> scores, const FillScores& fill, PooledVector<std::int64_t> supply,
                 PooledVector<std::int64_t> room)
      : scores_(scores),
        fill_(fill),
        supply_(std::move(supply)),
        room_(std::move(room)),
        tree_(scores.rows, scores.cols),
        step_(distant_step(scores.rows)),
        block_(static_cast<Index>(std::sqrt(static_cast<double>(scores.rows) /
                                            static_cast<double>(std::max<Index>(1, scores.cols))))),
        allowed_(scores.cols) {}

  BasicPlan solve() {
    fill_();
    if (!start()) return no_plan();
    if (uses_forbidden_) serve();
    for (int finer_units = 0;; ++finer_units) {
      set_potentials();
      round_scores();
      improve();
      set_potentials();
      const double finest = std::ldexp(tree_.largest_potential(), wasted_bits - unit_bits);
      if (finer_units == most_finer_units || unit_ <= finest) break;
      fill_();
      leave_out_unservable();
      unit_ = 0;
    }
    return found();
  }

 private:
  bool is_open_row(Index i) const { return supply_[static_cast<std::size_t>(i)] > 0; }
  double* g() { return tree_.col_potentials().data(); }

  // Makes a first basis: each row sends its supply to its best columns that still have room. Each
  // pair closes one of its lines, which hangs below the other. If both are used up, the column
  // closes, so that the row hangs on its next column with an amount of 0: the basis is then
  // strongly feasible. False if there is no mass.
  bool start() {
    PooledVector<double> closed;
    Index open = 0;
    for (const std::int64_t amount : room_) {
      closed.push_back(amount > 0 ? 0 : infinity);
      open += amount > 0 ? 1 : 0;
    }
    PooledVector<std::int64_t> left = room_;
    for (Index i = 0; i < scores_.rows; ++i) {
      if (!is_open_row(i)) continue;
      stop_if_asked();
      const auto row = static_cast<BasisTree::Line>(i);
      std::int64_t rest = supply_[static_cast<std::size_t>(i)];
      for (;;) {
        const auto j = static_cast<std::size_t>(best_open_column(i, closed));
        const auto col =
            static_cast<BasisTree::Line>(scores_.rows) + static_cast<BasisTree::Line>(j);
        if (rest < left[j] || open == 1) {
          tree_.attach(row, col, rest);
          left[j] -= rest;
          break;
        }
        tree_.attach(col, row, left[j]);
        rest -= left[j];
        closed[j] = infinity;
        --open;
      }
    }
    return open > 0;
  }

  Index best_open_column(Index i, const PooledVector<double>& closed) {
    const T* const row = scores_.row(i);
    const double best = kernel::row_max(row, scores_.cols, closed.data());
    if (best == minus_infinity) {
      uses_forbidden_ = true;
      return std::find(closed.begin(), closed.end(), 0.0) - closed.begin();
    }
    Index j = 0;
    while (static_cast<double>(row[j]) - closed[static_cast<std::size_t>(j)] != best) ++j;
    return j;
  }

  // Moves as much mass as possible from forbidden to allowed pairs: a problem of its own, where
  // allowed pairs have a score of 0 and forbidden ones −1, and never enter. If its potentials add
  // up to more than 0 at an allowed pair, no plan over allowed pairs uses that pair. Pivots over
  // other pairs leave these potentials as they are, and no forbidden pair takes mass back.
  void serve() {
    serving_ = true;
    set_potentials();
    improve();
    served_row_ = row_potentials();
    served_col_.assign(tree_.col_potentials().begin(), tree_.col_potentials().end());
    serving_ = false;
    leave_out_unservable();
  }

  void leave_out_unservable() {
    if (served_row_.empty()) return;
    for (Index i = 0; i < scores_.rows; ++i) {
      const double row = served_row_[static_cast<std::size_t>(i)];
      for (Index j = 0; j < scores_.cols; ++j) {
        if (row + served_col_[static_cast<std::size_t>(j)] > 0) {
          scores_(i, j) = static_cast<T>(minus_infinity);
        }
      }
    }
  }

  double f(Index i) {
    const Index j = tree_.column_above(i);
    return tree_score(i, j) - g()[j];
  }

  // The score of a pair in the present problem.
  T score(T given) const {
    return serving_ && given != static_cast<T>(minus_infinity) ? T{0} : given;
  }

  // The same of a pair of the tree. Forbidden ones carry nothing once all mass is served: any
  // score will do.
  double tree_score(Index i, Index j) const {
    const T value = score(scores_(i, j));
    if (value == static_cast<T>(minus_infinity)) return serving_ ? -1 : 0;
    return static_cast<double>(value);
  }

  void set_potentials() {
    tree_.set_potentials([&](Index i, Index j) { return tree_score(i, j); });
    // Closed columns take no part.
    for (std::size_t j = 0; j < room_.size(); ++j) {
      if (room_[j] == 0) g()[j] = infinity;
    }
  }

  // Rounds the scores to multiples of a larger unit if potentials need it.
  void round_scores() {
    const double largest = tree_.largest_potential();
    if (serving_ || largest <= std::ldexp(unit_, most_bits)) return;
    unit_ = std::ldexp(1.0, std::ilogb(largest) - unit_bits);
    // The sum with this number has a last bit of one unit, or more for larger scores, which are
    // multiples of the unit already.
    const double shift = std::ldexp(1.5 * unit_, 52);
    for (Index i = 0; i < scores_.rows; ++i) {
      T* const row = scores_.row(i);
      for (Index j = 0; j < scores_.cols; ++j) {
        row[j] = static_cast<T>((static_cast<double>(row[j]) + shift) - shift);
      }
    }
    set_potentials();
  }

  // Pivots until no pair has a score above f_i + g_j. The pair that enters is the best one of a
  // block of rows, about √(m n) pairs; the blocks take turns.
  void improve() {
    Index row = 0;
    for (Index searched = 0; searched < scores_.rows;) {
      stop_if_asked();
      Pair best;
      for (Index n = 0; n < std::max<Index>(1, block_); ++n, ++searched) {
        search(row, best);
        row = (row + step_) % scores_.rows;
      }
      if (!(best.gain > 0)) continue;
      const Index col = column_of(best);
      tree_.pivot(best.row, col, static_cast<double>(score(scores_(best.row, col))), best.gain);
      ++pivots_;
      searched = 0;
      round_scores();
    }
  }

  // Where a search has found the largest s_ij − f_i − g_j.
  struct Pair {
    double gain = 0;
    double difference = 0;  // s_ij − g_j
    Index row = 0;
  };

  void search(Index row, Pair& best) {
    if (!is_open_row(row)) return;
    const T* scores = scores_.row(row);
    if (serving_) {
      std::transform(scores, scores + scores_.cols, allowed_.data(),
                     [&](T given) { return score(given); });
      scores = allowed_.data();
    }
    const double difference = kernel::row_max(scores, scores_.cols, g());
    const double gain = difference - f(row);
    if (gain > best.gain) best = {gain, difference, row};
  }

  Index column_of(const Pair& pair) {
    const T* const row = scores_.row(pair.row);
    Index j = 0;
    while (static_cast<double>(score(row[j])) - g()[j] != pair.difference) ++j;
    return j;
  }

  // Adds a multiple of the potentials of `serve` that lifts f_i + g_j to s_ij at all pairs that
  // were left out. It does not change Σ a_i f_i + Σ b_j g_j.
  void lift(Potentials& potentials) {
    fill_();
    const auto by = [&](Index i, Index j) {
      return served_row_[static_cast<std::size_t>(i)] + served_col_[static_cast<std::size_t>(j)];
    };
    double most = 0;
    for (Index i = 0; i < scores_.rows; ++i) {
      const double row = potentials.row[static_cast<std::size_t>(i)];
      for (Index j = 0; j < scores_.cols; ++j) {
        if (!(by(i, j) > 0 && std::isfinite(by(i, j)))) continue;
        const double sum = row + potentials.col[static_cast<std::size_t>(j)];
        most = std::max(most, (static_cast<double>(scores_(i, j)) - sum) / by(i, j));
      }
    }
    const auto add = [&](const PooledVector<double>& served, PooledVector<double>& to) {
      for (std::size_t n = 0; n < to.size(); ++n) {
        if (std::isfinite(to[n])) to[n] += most * served[n];
      }
    };
    add(served_row_, potentials.row);
    add(served_col_, potentials.col);
  }

  // −inf for closed rows.
  PooledVector<double> row_potentials() {
    PooledVector<double> row(supply_.size(), minus_infinity);
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (supply_[i] > 0) row[i] = f(static_cast<Index>(i));
    }
    return row;
  }

  BasicPlan no_plan() const {
    BasicPlan plan;
    plan.potentials.row.assign(supply_.size(), minus_infinity);
    plan.potentials.col.assign(room_.size(), minus_infinity);
    return plan;
  }

  BasicPlan found() {
    BasicPlan plan = no_plan();
    plan.pivots = pivots_;
    tree_.for_each_pair([&](Index i, Index j, std::int64_t amount) {
      if (amount > 0 && scores_(i, j) != static_cast<T>(minus_infinity)) {
        plan.shipments.push_back({i, j, amount});
      }
    });
    plan.potentials.row = row_potentials();
    for (std::size_t j = 0; j < room_.size(); ++j) {
      if (room_[j] > 0) plan.potentials.col[j] = g()[j];
    }
    if (!served_row_.empty()) lift(plan.potentials);
    return plan;
  }

  MatrixView<T> scores_;
  const FillScores& fill_;
  PooledVector<std::int64_t> supply_, room_;
  BasisTree tree_;
  Index step_, block_;           // rows
  Buffer<T> allowed_;            // the scores of a row while serving
  bool uses_forbidden_ = false;  // whether the first basis does
  bool serving_ = false;
  PooledVector<double> served_row_, served_col_;  // the potentials of `serve`, if it has run
  double unit_ = 0;                               // of the scores; 0: they are as given
  Index pivots_ = 0;
};

}  // namespace

template <class T>
BasicPlan solve_by_pivots(MatrixView<T> matrix, const FillScores& fill,
                          PooledVector<std::int64_t> supply, PooledVector<std::int64_t> room) {
  return NetworkSimplex<T>(matrix, fill, std::move(supply), std::move(room)).solve();
}

std::int64_t pivoting_bytes(Index rows, Index cols, std::size_t element_size) {
  const auto element = static_cast<std::int64_t>(element_size);
  constexpr std::int64_t never = std::int64_t{1} << 52;
  // Lines have numbers of 32 bits, and products of bytes must fit their type.
  if (rows + cols > std::numeric_limits<BasisTree::Line>::max() ||
      static_cast<double>(rows) * static_cast<double>(cols) > 0x1p48) {
    return never;
  }
  // For each line amounts, potentials, and shipments in a list that grows.
  constexpr std::int64_t of_line = 25 * sizeof(double);
  return rows * cols * element + BasisTree::bytes(rows, cols) + of_line * (rows + cols) +
         cols * element + 2 * buffer_margin;
}

template BasicPlan solve_by_pivots(MatrixView<float>, const FillScores&, PooledVector<std::int64_t>,
                                   PooledVector<std::int64_t>);
template BasicPlan solve_by_pivots(MatrixView<double>, const FillScores&,
                                   PooledVector<std::int64_t>, PooledVector<std::int64_t>);

}  // namespace attn
