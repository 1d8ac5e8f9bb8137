#include "kernel/small_scaling.hpp"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/small_scaling.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernel/small_group-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attn::kernel::HWY_NAMESPACE {

// The factor that divides a line by its sum plus eps, if its products with `before` are the line.
template <class T>
Vec<T> divided(Vec<T> before, Vec<T> product, Vec<T> eps) {
  return hn::Div(before, hn::MulAdd(before, product, eps));
}

// With constant sizes (0: any), the numbers of lines stay in registers.
template <Index Rows, Index Cols, bool WithEps, class T>
HWY_INLINE void iterate_sized(const Group<T>& group, Index iterations, T added) {
  const Tag<T> d;
  const Index rows = Rows > 0 ? Rows : group.rows;
  const Index cols = Cols > 0 ? Cols : group.cols;
  const Vec<T> eps = hn::Set(d, added);
  for (Index i = 0; i < rows; ++i) set(group.row, i, hn::Set(d, T{1}));
  // The columns of a softmax have their sums already.
  for (Index j = 0; WithEps && j < cols; ++j) set(group.col_of(1), j, hn::Set(d, T{1}));
  for (Index t = 1; t <= iterations; ++t) {
    const T* const row_before = group.row_of(t - 1);
    const T* const col_before = group.col_of(t - 1);
    T* const row = group.row_of(t);
    T* const col = group.col_of(t);
    for (Index j = 0; (!WithEps || t > 1) && j < cols; ++j) {
      Vec<T> sum = hn::Zero(d);
      for (Index i = 0; i < rows; ++i) {
        sum = hn::MulAdd(group.score(0, i * cols + j), at(row_before, i), sum);
      }
      set(col, j,
          WithEps ? divided<T>(at(col_before, j), sum, eps)
                  : quotient<T>(at(group.col_marginal, j), sum));
    }
    for (Index i = 0; i < rows; ++i) {
      Vec<T> sum = hn::Zero(d);
      for (Index j = 0; j < cols; ++j) {
        sum = hn::MulAdd(group.score(0, i * cols + j), at(col, j), sum);
      }
      set(row, i,
          WithEps ? divided<T>(at(row_before, i), sum, eps)
                  : quotient<T>(at(group.row_marginal, i), sum));
    }
  }
}

// The adjoints of all half-steps, the last first: u_i = ρ_i φ_i/a_i and w_j = κ_j γ_j/b_j for the
// factors ρ and κ (MATHEMATICS.md §2, "Small problems").
template <Index Rows, Index Cols, bool WithEps, class T>
HWY_INLINE void adjoints_sized(const Group<T>& group, Index iterations, T added) {
  const Tag<T> d;
  const Index rows = Rows > 0 ? Rows : group.rows;
  const Index cols = Cols > 0 ? Cols : group.cols;
  const Vec<T> eps = hn::Set(d, added);
  const Vec<T> zero = hn::Zero(d);
  invert_marginals(group);
  // −Σ P G over rows and columns.
  const T* const last_row = group.row_of(iterations);
  const T* const last_col = group.col_of(iterations);
  for (Index j = 0; j < cols; ++j) set(group.col_adjoint_of(iterations), j, zero);
  for (Index i = 0; i < rows; ++i) {
    Vec<T> sum = zero;
    for (Index j = 0; j < cols; ++j) {
      const Vec<T> term =
          hn::Mul(hn::Mul(hn::Mul(group.score(0, i * cols + j), at(last_row, i)), at(last_col, j)),
                  at(group.gradient, i * cols + j));
      sum = hn::Sub(sum, term);
      T* const of_col = group.col_adjoint_of(iterations);
      set(of_col, j, hn::Sub(at(of_col, j), term));
    }
    set(group.row_adjoint_of(iterations), i, sum);
  }
  // The adjoints of a half-step begin with what the next one left for it: φ, and with ε a share of
  // γ.
  for (Index t = iterations; t >= 1; --t) {
    const T* const row = group.row_of(t);
    const T* const col = group.col_of(t);
    T* const u = group.row_adjoint_of(t);
    T* const w = group.col_adjoint_of(t);
    const T* const row_before = group.row_of(t - 1);
    // With ε, the share ε ρᵗ/ρᵗ⁻¹ of φᵗ.
    for (Index i = 0; i < rows; ++i) {
      const Vec<T> phi = at(u, i);
      if (WithEps && t > 1) {
        set(group.row_adjoint_of(t - 1), i,
            hn::Div(hn::Mul(hn::Mul(eps, at(row, i)), phi), at(row_before, i)));
      }
      set(u, i, hn::Mul(at(row, i), WithEps ? phi : hn::Mul(phi, at(group.row_share, i))));
    }
    for (Index j = 0; j < cols; ++j) {
      Vec<T> sum = zero;
      for (Index i = 0; i < rows; ++i) {
        sum = hn::MulAdd(group.score(0, i * cols + j), at(u, i), sum);
      }
      const Vec<T> given = WithEps || t == iterations ? at(w, j) : zero;
      const Vec<T> gamma = hn::NegMulAdd(at(col, j), sum, given);
      if (WithEps && t > 1) {
        set(group.col_adjoint_of(t - 1), j,
            hn::Div(hn::Mul(hn::Mul(eps, at(col, j)), gamma), at(group.col_of(t - 1), j)));
      }
      set(w, j, hn::Mul(at(col, j), WithEps ? gamma : hn::Mul(gamma, at(group.col_share, j))));
    }
    if (t == 1) break;
    for (Index i = 0; i < rows; ++i) {
      Vec<T> sum = zero;
      for (Index j = 0; j < cols; ++j) {
        sum = hn::MulAdd(group.score(0, i * cols + j), at(w, j), sum);
      }
      T* const before = group.row_adjoint_of(t - 1);
      const Vec<T> given = WithEps ? at(before, i) : zero;
      set(before, i, hn::NegMulAdd(at(row_before, i), sum, given));
    }
  }
}

// gradient <- Σ of all that multiplies the kernel E in ∂L/∂s, ρ_i κ_j G_ij + Σ_t (u_i κ_j + ρ_i
// w_j).
template <Index Rows, Index Cols, bool WithEps, class T>
HWY_INLINE void gather_sized(const Group<T>& group, Index iterations) {
  const Index rows = Rows > 0 ? Rows : group.rows;
  const Index cols = Cols > 0 ? Cols : group.cols;
  for (Index i = 0; i < rows; ++i) {
    const Vec<T> last = at(group.row_of(iterations), i);
    const auto add = [&](Index j, Vec<T> sum, Index t) HWY_ATTR {
      sum = hn::MulAdd(at(group.row_adjoint_of(t), i), at(group.col_of(t), j), sum);
      // The first softmax is no product with factors.
      if (WithEps && t == 1) return sum;
      return hn::MulAdd(at(group.row_of(t - 1), i), at(group.col_adjoint_of(t), j), sum);
    };
    const auto first = [&](Index j) HWY_ATTR {
      return hn::Mul(hn::Mul(last, at(group.col_of(iterations), j)),
                     at(group.gradient, i * cols + j));
    };
    Index j = 0;
    for (; j + 4 <= cols; j += 4) {
      Vec<T> s0 = first(j), s1 = first(j + 1), s2 = first(j + 2), s3 = first(j + 3);
      for (Index t = iterations; t >= 1; --t) {
        s0 = add(j, s0, t);
        s1 = add(j + 1, s1, t);
        s2 = add(j + 2, s2, t);
        s3 = add(j + 3, s3, t);
      }
      set(group.gradient, i * cols + j, s0);
      set(group.gradient, i * cols + j + 1, s1);
      set(group.gradient, i * cols + j + 2, s2);
      set(group.gradient, i * cols + j + 3, s3);
    }
    for (; j < cols; ++j) {
      Vec<T> sum = first(j);
      for (Index t = iterations; t >= 1; --t) sum = add(j, sum, t);
      set(group.gradient, i * cols + j, sum);
    }
  }
}

// gradient <- ∂L/∂s.
template <Index Rows, Index Cols, bool WithEps, class T>
HWY_INLINE void differentiate_sized(const Group<T>& group, Index iterations, T eps) {
  adjoints_sized<Rows, Cols, WithEps>(group, iterations, eps);
  gather_sized<Rows, Cols, WithEps>(group, iterations);
  const Tag<T> d;
  for (Index j = 0; j < group.cols; ++j) {
    Vec<T> mean = hn::Zero(d);
    for (Index i = 0; WithEps && i < group.rows; ++i) {
      const Index n = i * group.cols + j;
      mean = hn::MulAdd(at(group.softmax, n), at(group.gradient, n), mean);
    }
    for (Index i = 0; i < group.rows; ++i) {
      const Index n = i * group.cols + j;
      const Vec<T> weight = WithEps ? at(group.softmax, n) : group.score(0, n);
      set(group.gradient, n, hn::Mul(weight, hn::Sub(at(group.gradient, n), mean)));
    }
  }
}

// Iterates, and differentiates if there is a gradient of the plan.
template <Index Rows, Index Cols, bool WithEps, class T>
void solve_sized(const Group<T>& group, Index iterations, T eps) {
  iterate_sized<Rows, Cols, WithEps>(group, iterations, eps);
  if (group.row_step > 0) differentiate_sized<Rows, Cols, WithEps>(group, iterations, eps);
}

template <class T>
void solve(const Group<T>& group, Index iterations, T eps) {
  const bool usual = group.rows == 4 && group.cols == 4;
  if (eps > 0) {
    usual ? solve_sized<4, 4, true>(group, iterations, eps)
          : solve_sized<0, 0, true>(group, iterations, eps);
  } else {
    usual ? solve_sized<4, 4, false>(group, iterations, eps)
          : solve_sized<0, 0, false>(group, iterations, eps);
  }
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

// scores <- the softmax of each column, plus eps.
template <class T>
void softmax_of_columns(const Group<T>& group, T eps) {
  const Tag<T> d;
  for (Index j = 0; j < group.cols; ++j) {
    Vec<T> largest = group.score(0, j);
    for (Index i = 1; i < group.rows; ++i) largest = hn::Max(largest, group.score(i, j));
    Vec<T> sum = hn::Zero(d);
    for (Index i = 0; i < group.rows; ++i) {
      const Vec<T> e =
          exp_near_zero(hn::Max(hn::Sub(group.score(i, j), largest), hn::Set(d, T{-80})));
      group.set_score(i, j, e);
      sum = hn::Add(sum, e);
    }
    for (Index i = 0; i < group.rows; ++i) {
      const Vec<T> weight = hn::Div(group.score(i, j), sum);
      if (group.row_step > 0) set(group.softmax, i * group.cols + j, weight);
      group.set_score(i, j, hn::Add(weight, hn::Set(d, eps)));
    }
  }
}

// scores <- the plan. NaN in lanes where a factor is infinite or NaN, else 0.
template <class T>
Vec<T> make_plan(const Group<T>& group, Index iterations) {
  const T* const row = group.row_of(iterations);
  const T* const col = group.col_of(iterations);
  const Vec<T> zero = hn::Zero(Tag<T>());
  Vec<T> check = zero;
  for (Index i = 0; i < group.rows; ++i) {
    check = hn::MulAdd(at(row, i), zero, check);
    for (Index j = 0; j < group.cols; ++j) {
      const Vec<T> weight = hn::Mul(hn::Mul(group.score(i, j), at(row, i)), at(col, j));
      group.set_score(i, j, weight);
    }
  }
  for (Index j = 0; j < group.cols; ++j) check = hn::MulAdd(at(col, j), zero, check);
  return check;
}

template <class T>
void SmallScaling(const SmallProblems<T>& given, const SmallResults<T>& wanted, Index iterations,
                  double* scratch, std::uint8_t* done) {
  const SmallProblems<T> problems = turned(given);
  const SmallResults<T> results = turned(wanted, given.rows_first);
  const Tag<T> d;
  const Index step = lanes<T>();
  const Group<T> group(problems, iterations, reinterpret_cast<T*>(scratch));
  const auto eps = static_cast<T>(problems.eps);
  HWY_ALIGN T ranges[HWY_MAX_BYTES / sizeof(T)];
  HWY_ALIGN T shifts[HWY_MAX_BYTES / sizeof(T)] = {};
  HWY_ALIGN double errors[HWY_MAX_BYTES / sizeof(T)] = {};
  double* const sums = scratch + group.numbers;
  for (Index first = 0; first < problems.count; first += step) {
    const Index width = problems.count - first < step ? problems.count - first : step;
    load(problems, group, width, [&](Index lane) { return first + lane; });
    complete_marginals(group, problems.row_marginal != nullptr, problems.col_marginal != nullptr);
    Vec<T> range;
    if (problems.eps > 0) {
      softmax_of_columns(group, eps);
      range = hn::Set(d, static_cast<T>(-std::log(problems.eps)));
    } else {
      hn::Store(exponentials(group, &range), d, shifts);
    }
    solve(group, iterations, eps);
    hn::Store(hn::Add(range, make_plan(group, iterations)), d, ranges);
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
        potentials(group.row_of(iterations), group.rows, 0,
                   results.row_potential + problem * group.rows);
      }
      if (results.col_potential != nullptr) {
        potentials(group.col_of(iterations), group.cols, static_cast<double>(shifts[lane]),
                   results.col_potential + problem * group.cols);
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
         (problems, results, iterations, scratch, done))
#include "kernel/dispatch-inl.hpp"

#if HWY_ONCE
namespace attn::kernel {

std::int64_t small_scaling_bytes(Index rows, Index cols, Index iterations) {
  constexpr std::int64_t longest_vector = 256;  // of any instruction set
  const bool keeps = iterations > 0;
  const Index lines = rows + cols;
  const Index kept = keeps ? 2 * (iterations + 1) : 1;
  return ((keeps ? 3 : 1) * rows * cols + ((keeps ? 2 : 1) + kept) * lines +
          2 * std::max(rows, cols)) *
         longest_vector;
}

}  // namespace attn::kernel
#endif
