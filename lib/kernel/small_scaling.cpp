#include "kernel/small_scaling.hpp"

#include <cmath>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/small_scaling.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernel/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attn::kernel::HWY_NAMESPACE {

// A group of problems, one in each lane: number n of a problem in lane p is at[n * lanes + p].
template <class T>
struct Group {
  Index rows, cols;
  T* scores;  // rows * cols vectors
  T* row;     // one for each row or column: marginals, potentials
  T* col;
  T* row_marginal;
  T* col_marginal;

  Group(Index m, Index n, T* scratch) : rows(m), cols(n), scores(scratch) {
    const Index step = lanes<T>();
    row = scores + m * n * step;
    col = row + m * step;
    row_marginal = col + n * step;
    col_marginal = row_marginal + m * step;
  }
  static Index numbers(Index m, Index n) { return (m * n + 2 * (m + n)) * lanes<T>(); }
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

// The scores and marginals of `width` problems, number(p) in lane p; the other lanes repeat the
// first one.
template <class T, class Score, class Number>
void load(const SmallProblems<Score>& problems, const Group<T>& group, Index width,
          const Number& number) {
  for (Index lane = 0; lane < lanes<T>(); ++lane) {
    const Index problem = number(lane < width ? lane : 0);
    spread(problems.scores + problem * group.rows * group.cols, group.rows * group.cols,
           group.scores, lane);
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

template <class T>
void complete_marginals(const Group<T>& group, bool has_rows, bool has_cols) {
  const Tag<T> d;
  if (!has_rows) {
    for (Index i = 0; i < group.rows; ++i) {
      Vec<T> largest = group.score(i, 0);
      for (Index j = 1; j < group.cols; ++j) largest = hn::Max(largest, group.score(i, j));
      set(group.row_marginal, i, is_open<T>(largest));
    }
  }
  if (has_cols) return;
  Vec<T> total = hn::Zero(d);
  for (Index i = 0; i < group.rows; ++i) total = hn::Add(total, at(group.row_marginal, i));
  Vec<T> open = hn::Zero(d);
  for (Index j = 0; j < group.cols; ++j) {
    Vec<T> largest = group.score(0, j);
    for (Index i = 1; i < group.rows; ++i) largest = hn::Max(largest, group.score(i, j));
    const Vec<T> one = is_open<T>(largest);
    set(group.col_marginal, j, one);
    open = hn::Add(open, one);
  }
  const Vec<T> share = hn::Div(total, hn::Max(open, hn::Set(d, T{1})));
  for (Index j = 0; j < group.cols; ++j) {
    set(group.col_marginal, j, hn::Mul(at(group.col_marginal, j), share));
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

// Writes the results of a lane.
template <class T, class Score>
void write(const Group<T>& group, const SmallResults<Score>& results, Index problem, Index lane,
           double error) {
  const Index pairs = group.rows * group.cols;
  if (results.plan != nullptr) collect(group.scores, pairs, results.plan + problem * pairs, lane);
  if (results.error != nullptr) results.error[problem] = error;
}

// marginal / sum; 0 for a closed line.
template <class T>
Vec<T> quotient(Vec<T> marginal, Vec<T> sum) {
  return hn::IfThenElseZero(hn::Gt(marginal, hn::Zero(Tag<T>())), hn::Div(marginal, sum));
}

// With constant sizes (0: any), the numbers of lines stay in registers.
template <Index Rows, Index Cols, class T>
HWY_INLINE void iterate_sized(const Group<T>& group, Index iterations) {
  const Tag<T> d;
  const Index rows = Rows > 0 ? Rows : group.rows;
  const Index cols = Cols > 0 ? Cols : group.cols;
  for (Index i = 0; i < rows; ++i) set(group.row, i, hn::Set(d, T{1}));
  for (Index t = 0; t < iterations; ++t) {
    for (Index j = 0; j < cols; ++j) {
      Vec<T> sum = hn::Zero(d);
      for (Index i = 0; i < rows; ++i) {
        sum = hn::MulAdd(group.score(0, i * cols + j), at(group.row, i), sum);
      }
      set(group.col, j, quotient<T>(at(group.col_marginal, j), sum));
    }
    for (Index i = 0; i < rows; ++i) {
      Vec<T> sum = hn::Zero(d);
      for (Index j = 0; j < cols; ++j) {
        sum = hn::MulAdd(group.score(0, i * cols + j), at(group.col, j), sum);
      }
      set(group.row, i, quotient<T>(at(group.row_marginal, i), sum));
    }
  }
}

template <class T>
void iterate(const Group<T>& group, Index iterations) {
  if (group.rows == 4 && group.cols == 4) return iterate_sized<4, 4>(group, iterations);
  iterate_sized<0, 0>(group, iterations);
}

// scores <- exp(score − largest); returns the largest, and the range through `range`.
template <class T>
Vec<T> exponentials(const Group<T>& group, Vec<T>* range) {
  const Tag<T> d;
  const Vec<T> none = hn::Set(d, static_cast<T>(minus_infinity));
  Vec<T> largest = none;
  Vec<T> least = hn::Set(d, static_cast<T>(-minus_infinity));
  for (Index n = 0; n < group.rows * group.cols; ++n) {
    const Vec<T> score = group.score(0, n);
    largest = hn::Max(largest, score);
    least = hn::Min(least, hn::IfThenElse(hn::Eq(score, none), least, score));
  }
  *range = hn::Sub(largest, least);
  for (Index n = 0; n < group.rows * group.cols; ++n) {
    const Vec<T> score = group.score(0, n);
    // Clamps scores beyond the range and −inf, whose lanes become 0.
    const Vec<T> e = exp_near_zero(hn::Max(hn::Sub(score, largest), hn::Set(d, T{-80})));
    group.set_score(0, n, hn::IfThenZeroElse(hn::Eq(score, none), e));
  }
  return largest;
}

template <class T>
void SmallScaling(const SmallProblems<T>& problems, const SmallResults<T>& results,
                  Index iterations, double* scratch, std::uint8_t* done) {
  const Tag<T> d;
  const Index step = lanes<T>();
  const Group<T> group(problems.rows, problems.cols, reinterpret_cast<T*>(scratch));
  HWY_ALIGN T ranges[HWY_MAX_BYTES / sizeof(T)];
  HWY_ALIGN T shifts[HWY_MAX_BYTES / sizeof(T)];
  HWY_ALIGN double errors[HWY_MAX_BYTES / sizeof(T)] = {};
  double* const sums = scratch + Group<T>::numbers(group.rows, group.cols);
  for (Index first = 0; first < problems.count; first += step) {
    const Index width = problems.count - first < step ? problems.count - first : step;
    load(problems, group, width, [&](Index lane) { return first + lane; });
    complete_marginals(group, problems.row_marginal != nullptr, problems.col_marginal != nullptr);
    Vec<T> range;
    hn::Store(exponentials(group, &range), d, shifts);
    iterate(group, iterations);
    // NaN if a factor is infinite or NaN, else 0.
    Vec<T> check = hn::Zero(d);
    const Vec<T> zero = hn::Zero(d);
    for (Index i = 0; i < group.rows; ++i) {
      check = hn::MulAdd(at(group.row, i), zero, check);
      for (Index j = 0; j < group.cols; ++j) {
        const Vec<T> weight =
            hn::Mul(hn::Mul(group.score(i, j), at(group.row, i)), at(group.col, j));
        group.set_score(i, j, weight);
      }
    }
    for (Index j = 0; j < group.cols; ++j) check = hn::MulAdd(at(group.col, j), zero, check);
    hn::Store(hn::Add(range, check), d, ranges);
    if (results.error != nullptr) store_wide<T>(marginal_error(group, sums), errors);
    for (Index lane = 0; lane < width; ++lane) {
      const Index problem = first + lane;
      // False for NaN.
      done[problem] = ranges[lane] <= static_cast<T>(scaling_range) ? 1 : 0;
      if (done[problem] == 0) continue;
      write(group, results, problem, lane, errors[lane]);
      // exp(−f) and exp(shift − g).
      const auto potentials = [&](const T* factors, Index count, double shift, double* to) {
        for (Index n = 0; n < count; ++n) {
          const auto factor = static_cast<double>(factors[n * step + lane]);
          to[n] = factor > 0 ? shift - std::log(factor) : minus_infinity;
        }
      };
      if (results.row_potential != nullptr) {
        potentials(group.row, group.rows, 0, results.row_potential + problem * group.rows);
      }
      if (results.col_potential != nullptr) {
        potentials(group.col, group.cols, static_cast<double>(shifts[lane]),
                   results.col_potential + problem * group.cols);
      }
    }
  }
}

// log Σ_n exp(of(n)), −inf without a finite one.
template <class Of>
WideVec log_sum(Index count, const Of& of) {
  const Wide d;
  const WideVec none = hn::Set(d, minus_infinity);
  WideVec largest = none;
  for (Index n = 0; n < count; ++n) largest = hn::Max(largest, of(n));
  const auto empty = hn::Eq(largest, none);
  const WideVec shift = hn::IfThenZeroElse(empty, largest);
  WideVec sum = hn::Zero(d);
  for (Index n = 0; n < count; ++n) sum = hn::Add(sum, hn::Exp(d, hn::Sub(of(n), shift)));
  const WideVec safe = hn::IfThenElse(empty, hn::Set(d, 1.0), sum);
  return hn::IfThenElse(empty, none, hn::Add(shift, hn::Log(d, safe)));
}

template <class T>
void SmallLogarithms(const SmallProblems<T>& problems, const SmallResults<T>& results,
                     Index iterations, double* scratch, std::span<const Index> chosen) {
  const Wide d;
  const Index step = lanes<double>();
  const Group<double> group(problems.rows, problems.cols, scratch);
  double* const sums = scratch + Group<double>::numbers(group.rows, group.cols);
  HWY_ALIGN double errors[HWY_MAX_BYTES / sizeof(double)] = {};
  const WideVec none = hn::Set(d, minus_infinity);
  const WideVec closed = hn::Set(d, -minus_infinity);
  const auto count = static_cast<Index>(chosen.size());
  // The potential in the form in which it is subtracted: +inf for a line without weight.
  const auto potential = [&](WideVec log, double* marginals, Index n) HWY_ATTR {
    const WideVec marginal = at(marginals, n);
    const auto empty = hn::Or(hn::Eq(log, none), hn::Eq(marginal, hn::Zero(d)));
    const WideVec safe = hn::IfThenElse(empty, hn::Set(d, 1.0), marginal);
    return hn::IfThenElse(empty, closed, hn::Sub(log, hn::Log(d, safe)));
  };
  for (Index first = 0; first < count; first += step) {
    const Index width = count - first < step ? count - first : step;
    const auto number = [&](Index lane) { return chosen[static_cast<std::size_t>(first + lane)]; };
    load(problems, group, width, number);
    complete_marginals(group, problems.row_marginal != nullptr, problems.col_marginal != nullptr);
    for (Index i = 0; i < group.rows; ++i) set(group.row, i, hn::Zero(d));
    for (Index t = 0; t < iterations; ++t) {
      for (Index j = 0; j < group.cols; ++j) {
        const WideVec log = log_sum(group.rows, [&](Index i) HWY_ATTR {
          return hn::Sub(group.score(i, j), at(group.row, i));
        });
        set(group.col, j, potential(log, group.col_marginal, j));
      }
      for (Index i = 0; i < group.rows; ++i) {
        const WideVec log = log_sum(group.cols, [&](Index j) HWY_ATTR {
          return hn::Sub(group.score(i, j), at(group.col, j));
        });
        set(group.row, i, potential(log, group.row_marginal, i));
      }
    }
    for (Index i = 0; i < group.rows; ++i) {
      for (Index j = 0; j < group.cols; ++j) {
        const WideVec exponent =
            hn::Sub(hn::Sub(group.score(i, j), at(group.col, j)), at(group.row, i));
        group.set_score(i, j, hn::Exp(d, exponent));
      }
    }
    // Measures the error of the plan as written.
    if constexpr (std::is_same_v<T, float>) {
      for (Index n = 0; n < group.rows * group.cols * step; ++n) {
        group.scores[n] = static_cast<double>(static_cast<float>(group.scores[n]));
      }
    }
    if (results.error != nullptr) store_wide<double>(marginal_error(group, sums), errors);
    for (Index lane = 0; lane < width; ++lane) {
      write(group, results, number(lane), lane, errors[lane]);
      const auto potentials = [&](const double* from, Index lines, double* to) {
        for (Index n = 0; n < lines; ++n) {
          to[n] = from[n * step + lane];
          if (std::isinf(to[n])) to[n] = minus_infinity;
        }
      };
      if (results.row_potential != nullptr) {
        potentials(group.row, group.rows, results.row_potential + number(lane) * group.rows);
      }
      if (results.col_potential != nullptr) {
        potentials(group.col, group.cols, results.col_potential + number(lane) * group.cols);
      }
    }
  }
}

}  // namespace attn::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#define ATTN_KERNELS(KERNEL, T)                                                               \
  KERNEL(T, void, small_scaling, SmallScaling,                                                \
         (const SmallProblems<T>& problems, const SmallResults<T>& results, Index iterations, \
          double* scratch, std::uint8_t* done),                                               \
         (problems, results, iterations, scratch, done));                                     \
  KERNEL(T, void, small_logarithms, SmallLogarithms,                                          \
         (const SmallProblems<T>& problems, const SmallResults<T>& results, Index iterations, \
          double* scratch, std::span<const Index> chosen),                                    \
         (problems, results, iterations, scratch, chosen))
#include "kernel/dispatch-inl.hpp"

#if HWY_ONCE
namespace attn::kernel {

std::int64_t small_scaling_bytes(Index rows, Index cols) {
  constexpr std::int64_t longest_vector = 256;  // of any instruction set
  return (rows * cols + 2 * (rows + cols) + 2 * cols) * longest_vector;
}

}  // namespace attn::kernel
#endif
