#include "sinkhorn/sinkhorn.hpp"

#include <algorithm>
#include <cmath>

#include "pass/column_sums.hpp"
#include "pass/one_pass.hpp"
#include "sinkhorn/scaling_pass.hpp"
#include "tensor/infinity.hpp"

namespace attn {
namespace {

// The largest |log κ| and |log ρ|. In float32: with scores of at most 30 their products lie well
// inside the format; with a plan as kernel, entries flushed to 0 are then still below 1e-29 of
// their row, and the others have lost few digits to the rounding of their exponent. In float64:
// products with exp(s), |s| ≤ 350, stay below e^680 and so do their sums; with a plan, entries
// flushed to 0 are below e^-48 = 1e-21 of their marginals, and exponents are those of the formula.
template <class T>
constexpr bool is_float32 = sizeof(T) == sizeof(float);
template <class T>
constexpr double most_from_zero = is_float32<T> ? 45 : 330;
template <class T>
constexpr double most_from_plan = is_float32<T> ? 10 : 330;

// Weights below the smallest number of the format are lost; sums this large are not affected.
template <class T>
constexpr double smallest_sum = is_float32<T> ? 1e-25 : 1e-100;

double log_marginal(std::span<const double> log, Index line) {
  return log.empty() ? 0 : log[static_cast<std::size_t>(line)];
}

}  // namespace

template <class T>
SinkhornIteration<T>::SinkhornIteration(const Scores<T>& scores, const LogMarginals& marginals,
                                        std::int64_t kept_bytes, int threads)
    : scores_(scores),
      marginals_(marginals),
      threads_(threads),
      kernel_(scores, kept_bytes),
      passes_(kernel_, threads) {
  for (const double log : marginals.row) row_marginal_.push_back(std::exp(log));
  for (const double log : marginals.col) col_marginal_.push_back(std::exp(log));
}

template <class T>
void SinkhornIteration<T>::start(std::span<double> col) {
  // f = 0 for the rows that are open, −inf for the others.
  PooledVector<double> open;
  PooledVector<double> potential;
  for (const double log : marginals_.row) {
    open.push_back(log == minus_infinity ? 0 : 1);
    potential.push_back(log == minus_infinity ? minus_infinity : 0);
  }
  if (kernel_.refers_to_zero()) {
    ScalingPass pass;
    pass.row_scale = open;
    pass.col_sum = col;
    passes_.run(pass);
    for (double& g : col) g = std::log(g);
  } else {
    complete_columns(potential, col);
    return;
  }
  for (Index j = 0; j < scores_.cols(); ++j) {
    const double log = log_marginal(marginals_.col, j);
    double& g = col[static_cast<std::size_t>(j)];
    g = log == minus_infinity ? minus_infinity : g - log;
  }
}

template <class T>
void SinkhornIteration<T>::step(std::span<double> col, std::span<double> row,
                                std::span<double> next) {
  if (!by_products(col, row, next)) removing_maxima(col, row, next);
}

// The plan's column sums are c_j = b_j exp(g'_j − g_j), and the pass that completes f yields them
// at no cost. Unless marginals differ very much in size, none is near the bottom of the format (DN
// Lemma 1).
template <class T>
void SinkhornIteration<T>::removing_maxima(std::span<double> col, std::span<double> row,
                                           std::span<double> next) {
  ColumnSums<T> sums;
  Pass<T> pass;
  pass.scores = &scores_;
  pass.completes = Completes::rows;
  pass.components = {Component{1, row, col}};
  pass.log_marginal = marginals_.row;
  pass.observers = {&sums};
  run(pass, threads_);
  kernel_.refer_to(row, col);
  for (std::size_t j = 0; j < col.size(); ++j) {
    if (std::isinf(col[j]) || sums.values()[j] >= smallest_sum<T>) continue;
    // A kernel in this range would lose such a column, too.
    kernel_.refer_to({}, {});
    complete_columns(row, next);
    return;
  }
  for (Index j = 0; j < scores_.cols(); ++j) {
    const auto at = static_cast<std::size_t>(j);
    next[at] = std::isinf(col[at])
                   ? col[at]
                   : col[at] + std::log(sums.values()[at]) - log_marginal(marginals_.col, j);
  }
}

template <class T>
void SinkhornIteration<T>::complete_columns(std::span<double> row, std::span<double> next) {
  Pass<T> pass;
  pass.scores = &scores_;
  pass.order = Order::column_panels;
  pass.completes = Completes::columns;
  pass.components = {Component{1, row, next}};
  pass.log_marginal = marginals_.col;
  run(pass, threads_);
}

// κ from g; false if one is out of range.
template <class T>
bool SinkhornIteration<T>::find_factors(std::span<const double> col,
                                        PooledVector<double>& factor) const {
  const double most = kernel_.refers_to_zero() ? most_from_zero<T> : most_from_plan<T>;
  factor.assign(col.size(), 0.0);
  for (std::size_t j = 0; j < col.size(); ++j) {
    if (col[j] == minus_infinity) continue;
    const double log = kernel_.col_reference(static_cast<Index>(j)) - col[j];
    if (!(std::abs(log) <= most)) return false;
    factor[j] = std::exp(log);
  }
  return true;
}

// Whether a/r is in range for all rows that have a marginal and an allowed pair.
template <class T>
bool SinkhornIteration<T>::rows_in_range(std::span<const double> sum) const {
  const double most = std::exp(kernel_.refers_to_zero() ? most_from_zero<T> : most_from_plan<T>);
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const double a = row_marginal_.empty() ? 1 : row_marginal_[i];
    if (a == 0) continue;
    if (sum[i] == 0) {
      // Nothing is allowed, unless it was flushed to 0.
      if (std::isinf(kernel_.row_reference(static_cast<Index>(i))) || kernel_.refers_to_zero()) {
        continue;
      }
      return false;
    }
    if (!(sum[i] <= a * most && sum[i] * most >= a)) return false;
  }
  return true;
}

// f from the factors ρ.
template <class T>
void SinkhornIteration<T>::set_row_potentials(std::span<const double> factor,
                                              std::span<double> row) const {
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i] = factor[i] == 0 ? minus_infinity
                            : kernel_.row_reference(static_cast<Index>(i)) - std::log(factor[i]);
  }
}

// g from the factors κ, −inf for closed columns.
template <class T>
void SinkhornIteration<T>::set_col_potentials(std::span<const double> factor,
                                              std::span<double> col) const {
  for (std::size_t j = 0; j < col.size(); ++j) {
    col[j] = factor[j] == 0 ? minus_infinity
                            : kernel_.col_reference(static_cast<Index>(j)) - std::log(factor[j]);
  }
}

template <class T>
bool SinkhornIteration<T>::by_products(std::span<const double> col, std::span<double> row,
                                       std::span<double> next) {
  PooledVector<double> factor;
  if (!kernel_.refers() || !find_factors(col, factor)) return false;
  ScalingPass pass;
  pass.col_scale = factor;
  pass.row_scale = row_marginal_;
  pass.row_sum = row;
  pass.col_sum = next;
  passes_.run(pass);
  if (!rows_in_range(row)) return false;
  for (Index i = 0; i < scores_.rows(); ++i) {
    double& f = row[static_cast<std::size_t>(i)];
    const double log_a = log_marginal(marginals_.row, i);
    f = f == 0 || log_a == minus_infinity ? minus_infinity
                                          : kernel_.row_reference(i) + (std::log(f) - log_a);
  }
  for (Index j = 0; j < scores_.cols(); ++j) {
    const auto at = static_cast<std::size_t>(j);
    next[at] = std::isinf(col[at]) ? col[at]
                                   : kernel_.col_reference(j) + std::log(next[at]) -
                                         log_marginal(marginals_.col, j);
  }
  return true;
}

// Whether a plan with these marginals may be the next kernel.
template <class T>
bool SinkhornIteration<T>::can_absorb() const {
  const auto large = [](double marginal) { return marginal == 0 || marginal >= smallest_sum<T>; };
  return std::all_of(row_marginal_.begin(), row_marginal_.end(), large) &&
         std::all_of(col_marginal_.begin(), col_marginal_.end(), large);
}

// c_j = b_j exp(g'_j − g_j); rows are exact. Lines with marginal 0 add 0.
template <class T>
MarginalErrors SinkhornIteration<T>::errors_of(std::span<const double> col,
                                               std::span<const double> row,
                                               std::span<const double> next) const {
  MarginalErrors errors;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (std::isinf(row[i])) errors.row += row_marginal_.empty() ? 1 : row_marginal_[i];
  }
  for (std::size_t j = 0; j < col.size(); ++j) {
    const double b = col_marginal_.empty() ? 1 : col_marginal_[j];
    errors.col += b * (std::isinf(col[j]) ? 1 : std::abs(std::expm1(next[j] - col[j])));
  }
  return errors;
}

// Iterates while potentials are in range of the reference, which is moved to them as long as that
// is safe. After Left::range, `col` is the g to continue from.
template <class T>
typename SinkhornIteration<T>::Left SinkhornIteration<T>::products(
    std::span<double> col, std::span<double> row, bool have_row, std::optional<double>& relaxation,
    const IterationCallback& callback, const IterationWatch& watch, const IterationState* from) {
  PooledVector<double> col_factor, row_factor;
  PooledVector<double> row_sum(row.size());
  PooledVector<double> col_sum(col.size());
  const bool absorbs = can_absorb();
  const auto absorb = [&] {
    if (!absorbs || !have_row) return false;
    kernel_.refer_to(row, col);
    return find_factors(col, col_factor);
  };
  if (from == nullptr && !find_factors(col, col_factor) && !absorb()) return Left::range;
  const auto take_row_factors = [&] {
    row_factor.assign(row.size(), 0.0);
    for (std::size_t i = 0; have_row && i < row.size(); ++i) {
      if (row[i] != minus_infinity) {
        row_factor[i] = std::exp(kernel_.row_reference(static_cast<Index>(i)) - row[i]);
      }
    }
  };
  if (from == nullptr) {
    take_row_factors();
  } else {
    col_factor = from->col_factor;
    row_factor = from->row_factor;
  }

  for (;;) {
    if (watch) {
      IterationState now = state(*relaxation, have_row);
      now.row_factor = row_factor;
      now.col_factor = col_factor;
      watch(std::move(now));
    }
    ScalingPass pass;
    pass.col_scale = col_factor;
    pass.row_scale = row_marginal_;
    pass.row_sum = row_sum;
    pass.col_sum = col_sum;
    pass.row_factor = row_factor;
    pass.relaxation = *relaxation;
    passes_.run(pass);
    if (!rows_in_range(row_sum)) {
      set_col_potentials(col_factor, col);
      return Left::range;
    }
    MarginalErrors errors;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const double a = row_marginal_.empty() ? 1 : row_marginal_[i];
      const bool exact = *relaxation == 1 && row_factor[i] != 0;
      if (!exact) errors.row += std::abs(row_factor[i] * row_sum[i] - a);
    }
    for (std::size_t j = 0; j < col.size(); ++j) {
      const double b = col_marginal_.empty() ? 1 : col_marginal_[j];
      errors.col += std::abs(col_factor[j] * col_sum[j] - b);
    }
    have_row = true;
    relaxation = callback(errors);
    if (!relaxation) {
      set_row_potentials(row_factor, row);
      set_col_potentials(col_factor, col);
      return Left::ended;
    }
    const double most = std::exp(kernel_.refers_to_zero() ? most_from_zero<T> : most_from_plan<T>);
    bool in_range = true;
    for (std::size_t j = 0; j < col.size(); ++j) {
      double& factor = col_factor[j];
      if (factor == 0) continue;
      const double b = col_marginal_.empty() ? 1 : col_marginal_[j];
      const double exact = b / col_sum[j];
      factor = *relaxation == 1 ? exact : factor * std::pow(exact / factor, *relaxation);
      in_range = in_range && factor <= most && factor * most >= 1;
    }
    if (in_range) continue;
    set_row_potentials(row_factor, row);
    set_col_potentials(col_factor, col);
    if (!absorb()) return Left::range;
    take_row_factors();
  }
}

// Without factors and potentials.
template <class T>
IterationState SinkhornIteration<T>::state(double relaxation, bool have_row) const {
  IterationState now;
  now.relaxation = relaxation;
  now.have_row = have_row;
  now.refers_to_zero = kernel_.refers_to_zero();
  if (!kernel_.refers() || now.refers_to_zero) return now;
  // References of masked lines are +inf.
  const auto given = [](double reference) {
    return std::isinf(reference) ? -reference : reference;
  };
  for (Index i = 0; i < scores_.rows(); ++i) {
    now.row_reference.push_back(given(kernel_.row_reference(i)));
  }
  for (Index j = 0; j < scores_.cols(); ++j) {
    now.col_reference.push_back(given(kernel_.col_reference(j)));
  }
  return now;
}

template <class T>
void SinkhornIteration<T>::iterate(std::span<double> col, std::span<double> row,
                                   const IterationCallback& callback, const IterationWatch& watch,
                                   const IterationState* from) {
  PooledVector<double> next(col.size());
  std::optional<double> relaxation = 1.0;
  bool have_row = false;
  if (from != nullptr) {
    relaxation = from->relaxation;
    have_row = from->have_row;
    set_reference(*from);
    if (!from->in_products()) {
      std::copy(from->row.begin(), from->row.end(), row.begin());
      std::copy(from->col.begin(), from->col.end(), col.begin());
    }
  }
  // A state without factors is that of an iteration that removes maxima.
  bool by_maxima = from != nullptr && !from->in_products();
  for (;;) {
    if (!by_maxima && kernel_.refers() &&
        products(col, row, have_row, relaxation, callback, watch, from) == Left::ended) {
      return;
    }
    by_maxima = false;
    from = nullptr;
    if (watch) {
      IterationState now = state(*relaxation, have_row);
      now.row = PooledVector<double>(row.begin(), row.end());
      now.col = PooledVector<double>(col.begin(), col.end());
      watch(std::move(now));
    }
    removing_maxima(col, row, next);
    have_row = true;
    relaxation = callback(errors_of(col, row, next));
    if (!relaxation) return;
    std::copy(next.begin(), next.end(), col.begin());
  }
}

template <class T>
void SinkhornIteration<T>::show(std::span<double> col, std::span<double> row,
                                const ObserverList<T>& observers) {
  RowPass<T> alone{&scores_, row, col, observers};
  if (marginals_.row.empty() && can_run_rows(alone)) {
    if (kernel_.refers_to_zero() && scores_.near_zero()) alone.exponentials = &kernel_;
    run_rows(alone, threads_);
    return;
  }
  Pass<T> pass;
  pass.scores = &scores_;
  pass.completes = Completes::rows;
  pass.components = {Component{1, row, col}};
  pass.log_marginal = marginals_.row;
  pass.observers = observers;
  run(pass, threads_);
}

std::int64_t sinkhorn_bytes(Index rows, Index cols, std::size_t element_size, int threads) {
  const std::int64_t scaling = row_pass_bytes(rows, cols, element_size, false, threads);
  const std::int64_t log_rows = pass_bytes(Order::row_panels, rows, cols, 1, element_size, threads);
  // Sums by slot; the kernel's reference; marginals, factors and sums.
  const Partition partition = row_pass_partition(rows, cols, element_size);
  return std::max(scaling, log_rows) + ColumnSums<float>::bytes(partition) +
         (3 * rows + 3 * cols) * static_cast<std::int64_t>(sizeof(double));
}

template class SinkhornIteration<float>;
template class SinkhornIteration<double>;

}  // namespace attn
