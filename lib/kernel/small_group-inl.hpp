// Groups of small problems, one in each lane of a vector, for the instruction set being compiled.
// Included once per instruction set, hence no #pragma once.

#if defined(ATTN_KERNEL_SMALL_GROUP_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTN_KERNEL_SMALL_GROUP_INL_HPP_
#undef ATTN_KERNEL_SMALL_GROUP_INL_HPP_
#else
#define ATTN_KERNEL_SMALL_GROUP_INL_HPP_
#endif

#include <utility>

#include "kernel/small_scaling.hpp"
#include "kernel/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attn::kernel::HWY_NAMESPACE {

// With rows_first, the kernels take the transposed problem: the lines that are normalised first are
// always columns. Only the matrices in memory stay as they are.
template <class T>
SmallProblems<T> turned(SmallProblems<T> problems) {
  if (!problems.rows_first) return problems;
  std::swap(problems.rows, problems.cols);
  std::swap(problems.row_marginal, problems.col_marginal);
  std::swap(problems.row_step, problems.col_step);
  return problems;
}

template <class T>
SmallResults<T> turned(SmallResults<T> results, bool rows_first) {
  if (rows_first) std::swap(results.row_potential, results.col_potential);
  return results;
}

// A group of problems, one in each lane: number n of a problem in lane p is at[n * lanes + p]. A
// gradient keeps the lines of every iteration.
template <class T>
struct Group {
  Index rows, cols;
  bool transposed;  // in memory
  Index row_step;   // from the lines of one iteration to those of the next; 0: only one is kept
  Index col_step;
  T* scores;        // rows * cols vectors
  T* row_marginal;  // one for each row or column
  T* col_marginal;
  T* row;        // factors or potentials, of iterations 0 to T
  T* col;        // of 1 to T
  T* gradient;   // rows * cols: of the plan
  T* softmax;    // rows * cols: the first columns before eps is added; in logarithms, their logs
  T* row_share;  // 1 / marginal; 0 for a closed line
  T* col_share;
  T* row_adjoint;  // of iterations 1 to T
  T* col_adjoint;

  Group(const SmallProblems<T>& of, Index iterations, T* scratch)
      : Group(of.rows, of.cols, of.rows_first, of.grad_plan != nullptr, iterations, scratch) {}

  Group(Index m, Index n, bool turns, bool keeps, Index iterations, T* scratch)
      : rows(m),
        cols(n),
        transposed(turns),
        row_step(keeps ? m * lanes<T>() : 0),
        col_step(keeps ? n * lanes<T>() : 0) {
    const auto take = [&scratch](Index vectors) {
      T* const taken = scratch;
      scratch += vectors * lanes<T>();
      return taken;
    };
    const Index kept = keeps ? iterations + 1 : 1;
    scores = take(m * n);
    row_marginal = take(m);
    col_marginal = take(n);
    row = take(kept * m);
    col = take(kept * n);
    gradient = take(keeps ? m * n : 0);
    softmax = take(keeps ? m * n : 0);
    row_share = take(keeps ? m : 0);
    col_share = take(keeps ? n : 0);
    row_adjoint = take(keeps ? kept * m : 0);
    col_adjoint = take(keeps ? kept * n : 0);
    numbers = scratch - scores;
  }

  Index numbers;  // of all these arrays

  T* row_of(Index t) const { return row + t * row_step; }
  T* col_of(Index t) const { return col + t * col_step; }
  T* row_adjoint_of(Index t) const { return row_adjoint + t * row_step; }
  T* col_adjoint_of(Index t) const { return col_adjoint + t * col_step; }

  Vec<T> score(Index i, Index j) const {
    return hn::LoadU(Tag<T>(), scores + (i * cols + j) * lanes<T>());
  }
  void set_score(Index i, Index j, Vec<T> v) const {
    hn::StoreU(v, Tag<T>(), scores + (i * cols + j) * lanes<T>());
  }
};

template <class T>
Vec<T> at(const T* lines, Index n) {
  return hn::LoadU(Tag<T>(), lines + n * lanes<T>());
}

template <class T>
void set(T* lines, Index n, Vec<T> v) {
  hn::StoreU(v, Tag<T>(), lines + n * lanes<T>());
}

// Puts the numbers of a problem into a lane.
template <class T, class From>
void spread(const From* from, Index count, T* to, Index lane) {
  const Index step = lanes<T>();
  for (Index n = 0; n < count; ++n) to[n * step + lane] = static_cast<T>(from[n]);
}

// Takes the numbers of a problem from a lane.
template <class T, class To>
void collect(const T* from, Index count, To* to, Index lane) {
  const Index step = lanes<T>();
  for (Index n = 0; n < count; ++n) to[n] = static_cast<To>(from[n * step + lane]);
}

// The same for a matrix.
template <class T, class From>
void spread_matrix(const Group<T>& group, const From* from, T* to, Index lane) {
  if (!group.transposed) return spread(from, group.rows * group.cols, to, lane);
  const Index step = lanes<T>();
  for (Index j = 0; j < group.cols; ++j) {
    for (Index i = 0; i < group.rows; ++i) {
      to[(i * group.cols + j) * step + lane] = static_cast<T>(*from++);
    }
  }
}

template <class T, class To>
void collect_matrix(const Group<T>& group, const T* from, To* to, Index lane) {
  if (!group.transposed) return collect(from, group.rows * group.cols, to, lane);
  const Index step = lanes<T>();
  for (Index j = 0; j < group.cols; ++j) {
    for (Index i = 0; i < group.rows; ++i) {
      *to++ = static_cast<To>(from[(i * group.cols + j) * step + lane]);
    }
  }
}

// The numbers of `width` problems, number(p) in lane p; the other lanes repeat the first one.
template <class T, class Score, class Number>
void load(const SmallProblems<Score>& problems, const Group<T>& group, Index width,
          const Number& number) {
  const Index pairs = group.rows * group.cols;
  for (Index lane = 0; lane < lanes<T>(); ++lane) {
    const Index problem = number(lane < width ? lane : 0);
    spread_matrix(group, problems.scores + problem * pairs, group.scores, lane);
    if (problems.grad_plan != nullptr) {
      spread_matrix(group, problems.grad_plan + problem * pairs, group.gradient, lane);
    }
    if (problems.row_marginal != nullptr) {
      spread(problems.row_marginal + problem * problems.row_step, group.rows, group.row_marginal,
             lane);
    }
    if (problems.col_marginal != nullptr) {
      spread(problems.col_marginal + problem * problems.col_step, group.cols, group.col_marginal,
             lane);
    }
  }
}

// 1 where line(n) has an allowed pair, else 0.
template <class T>
Vec<T> is_open(Vec<T> largest) {
  const Tag<T> d;
  return hn::IfThenElseZero(hn::Gt(largest, hn::Set(d, static_cast<T>(minus_infinity))),
                            hn::Set(d, T{1}));
}

// The default marginals of `count` lines of `length` pairs, score(n, k): 1 for each open line, or
// with `others` equal shares of the sum of these.
template <class T, class Score>
void complete_lines(Index count, Index length, const Score& score, T* marginals, const T* others) {
  const Tag<T> d;
  Vec<T> open = hn::Zero(d);
  for (Index n = 0; n < count; ++n) {
    Vec<T> largest = score(n, 0);
    for (Index k = 1; k < length; ++k) largest = hn::Max(largest, score(n, k));
    const Vec<T> one = is_open<T>(largest);
    set(marginals, n, one);
    open = hn::Add(open, one);
  }
  if (others == nullptr) return;
  Vec<T> total = hn::Zero(d);
  for (Index k = 0; k < length; ++k) total = hn::Add(total, at(others, k));
  const Vec<T> share = hn::Div(total, hn::Max(open, hn::Set(d, T{1})));
  for (Index n = 0; n < count; ++n) set(marginals, n, hn::Mul(at(marginals, n), share));
}

template <class T>
void complete_marginals(const Group<T>& group, bool has_rows, bool has_cols) {
  const auto of_row = [&](Index i, Index j) HWY_ATTR { return group.score(i, j); };
  const auto of_col = [&](Index j, Index i) HWY_ATTR { return group.score(i, j); };
  const auto rows = [&](const T* others) HWY_ATTR {
    complete_lines<T>(group.rows, group.cols, of_row, group.row_marginal, others);
  };
  const auto cols = [&](const T* others) HWY_ATTR {
    complete_lines<T>(group.cols, group.rows, of_col, group.col_marginal, others);
  };
  if (group.transposed) {
    if (!has_cols) cols(nullptr);
    if (!has_rows) rows(group.col_marginal);
  } else {
    if (!has_rows) rows(nullptr);
    if (!has_cols) cols(group.row_marginal);
  }
}

// Σ_i |r_i − a_i| + Σ_j |c_j − b_j| of the plan in `scores`, in float64; `sums` holds cols sums.
template <class T>
Widened<T> marginal_error(const Group<T>& group, double* sums) {
  const Index step = lanes<T>();
  Widened<T> error = broadcast_wide<T>(0);
  for (Index j = 0; j < group.cols; ++j) store_wide<T>(broadcast_wide<T>(0), sums + j * step);
  const auto add = [&](const Widened<T>& sum, Vec<T> marginal) HWY_ATTR {
    const Widened<T> wanted = Widened<T>::of(marginal);
    for (int p = 0; p < Widened<T>::parts; ++p) {
      error.part[p] = hn::Add(error.part[p], hn::Abs(hn::Sub(sum.part[p], wanted.part[p])));
    }
  };
  for (Index i = 0; i < group.rows; ++i) {
    Widened<T> sum = broadcast_wide<T>(0);
    for (Index j = 0; j < group.cols; ++j) {
      const Widened<T> weight = Widened<T>::of(group.score(i, j));
      sum = plus<T>(sum, weight);
      store_wide<T>(plus<T>(load_wide<T>(sums + j * step), weight), sums + j * step);
    }
    add(sum, at(group.row_marginal, i));
  }
  for (Index j = 0; j < group.cols; ++j) {
    add(load_wide<T>(sums + j * step), at(group.col_marginal, j));
  }
  return error;
}

// Writes the results of a lane but for its potentials.
template <class T, class Score>
void write(const Group<T>& group, const SmallResults<Score>& results, Index problem, Index lane,
           double error) {
  const Index pairs = group.rows * group.cols;
  if (results.plan != nullptr) {
    collect_matrix(group, group.scores, results.plan + problem * pairs, lane);
  }
  if (results.grad_scores != nullptr) {
    collect_matrix(group, group.gradient, results.grad_scores + problem * pairs, lane);
  }
  if (results.error != nullptr) results.error[problem] = error;
}

// marginal / sum; 0 for a closed line.
template <class T>
Vec<T> quotient(Vec<T> marginal, Vec<T> sum) {
  return hn::IfThenElseZero(hn::Gt(marginal, hn::Zero(Tag<T>())), hn::Div(marginal, sum));
}

template <class T>
void invert_marginals(const Group<T>& group) {
  const Vec<T> one = hn::Set(Tag<T>(), T{1});
  const auto shares = [&](Index count, const T* marginals, T* to) HWY_ATTR {
    for (Index n = 0; n < count; ++n) {
      const Vec<T> marginal = at(marginals, n);
      const auto open = hn::Gt(marginal, hn::Zero(Tag<T>()));
      set(to, n, hn::IfThenElseZero(open, hn::Div(one, marginal)));
    }
  };
  shares(group.rows, group.row_marginal, group.row_share);
  shares(group.cols, group.col_marginal, group.col_share);
}

}  // namespace attn::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
