#include "sinkhorn/sinkhorn.hpp"

#include <algorithm>
#include <cmath>

#include "pass/column_sums.hpp"
#include "pass/one_pass.hpp"
#include "sinkhorn/scaling_pass.hpp"
#include "sinkhorn/soft_marginals.hpp"
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
    for (Index j = 0; j < scores_.cols(); ++j) {
      const double log = log_marginal(marginals_.col, j);
      double& g = col[static_cast<std::size_t>(j)];
      g = log == minus_infinity ? minus_infinity : std::log(g) - log;
    }
  } else {
    complete_columns(potential, col);
  }
  if (!marginals_.penalties) return;
  for (double& g : col) g *= soft_exponent(marginals_.penalties->col);
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

// The same with penalties, in two passes. Returns the errors of the plan of `col` and `row`.
template <class T>
MarginalErrors SinkhornIteration<T>::soft_maxima(std::span<double> col, std::span<double> row,
                                                 std::span<double> next) {
  const MarginalPenalties& penalties = *marginals_.penalties;
  Pass<T> pass;
  pass.scores = &scores_;
  pass.completes = Completes::rows;
  pass.components = {Component{1, row, col}};
  pass.log_marginal = marginals_.row;
  run(pass, threads_);
  for (double& f : row) f *= soft_exponent(penalties.row);
  complete_columns(row, next);
  MarginalErrors errors;
  bool visible = can_absorb(row, col);
  for (Index j = 0; j < scores_.cols(); ++j) {
    const auto at = static_cast<std::size_t>(j);
    const double log_b = log_marginal(marginals_.col, j);
    const double exact = next[at];
    next[at] *= soft_exponent(penalties.col);
    if (std::isinf(col[at])) {
      // 0, unless the column was lost to the format's range.
      errors.col += soft_sum(log_b, next[at], penalties.col);
      continue;
    }
    const double sum = std::exp(exact + log_b - col[at]);
    visible = visible && sum >= smallest_sum<T>;
    errors.col += std::abs(sum - soft_sum(log_b, col[at], penalties.col));
  }
  visible ? kernel_.refer_to(row, col) : kernel_.refer_to({}, {});
  const double translation =
      soft_translation(penalties, log_soft_mass(marginals_.row, row, penalties.row),
                       log_soft_mass(marginals_.col, next, penalties.col));
  for (double& g : next) g += translation;
  return errors;
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

// Whether a/r, or ρ with penalties, is in range for all rows that have a marginal and an allowed
// pair.
template <class T>
bool SinkhornIteration<T>::rows_in_range(std::span<const double> sum,
                                         std::span<const double> factor) const {
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
    const bool in_range = marginals_.penalties ? factor[i] <= most && factor[i] * most >= 1
                                               : sum[i] <= a * most && sum[i] * most >= a;
    if (!in_range) return false;
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
  if (!rows_in_range(row, {})) return false;
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

// Whether the plan of these potentials may be the next kernel.
template <class T>
bool SinkhornIteration<T>::can_absorb(std::span<const double> row,
                                      std::span<const double> col) const {
  const auto large = [](double sum) { return sum == 0 || sum >= smallest_sum<T>; };
  if (!marginals_.penalties) {
    return std::all_of(row_marginal_.begin(), row_marginal_.end(), large) &&
           std::all_of(col_marginal_.begin(), col_marginal_.end(), large);
  }
  const auto all_large = [&](std::span<const double> log_marginals,
                             std::span<const double> potential, double penalty) {
    for (std::size_t n = 0; n < potential.size(); ++n) {
      const double log = log_marginal(log_marginals, static_cast<Index>(n));
      const bool open = log != minus_infinity && potential[n] != minus_infinity;
      if (open && !(soft_sum(log, potential[n], penalty) >= smallest_sum<T>)) return false;
    }
    return true;
  };
  return all_large(marginals_.row, row, marginals_.penalties->row) &&
         all_large(marginals_.col, col, marginals_.penalties->col);
}

// The reference of all rows or columns.
template <class T>
PooledVector<double> SinkhornIteration<T>::references(Index count, bool of_rows) const {
  PooledVector<double> values;
  for (Index n = 0; n < count; ++n) {
    values.push_back(of_rows ? kernel_.row_reference(n) : kernel_.col_reference(n));
  }
  return values;
}

// ScalingPass::row_shift: f = φ (reference + log r − log a) is relative to the reference.
template <class T>
PooledVector<double> SinkhornIteration<T>::soft_shift() const {
  PooledVector<double> shift;
  if (!marginals_.penalties || kernel_.refers_to_zero()) return shift;
  const double share = 1 - soft_exponent(marginals_.penalties->row);
  for (Index i = 0; i < scores_.rows(); ++i) shift.push_back(share * kernel_.row_reference(i));
  return shift;
}

// Of rows or columns with these factors and sums, relative to the reference.
template <class T>
double SinkhornIteration<T>::soft_error(std::span<const double> sum, std::span<const double> factor,
                                        std::span<const double> log_marginals,
                                        std::span<const double> reference, double penalty) const {
  double error = 0;
  for (std::size_t n = 0; n < sum.size(); ++n) {
    if (factor[n] == 0) continue;
    const double log_factor = std::log(factor[n]);
    const double wanted = soft_sum(log_marginal(log_marginals, static_cast<Index>(n)),
                                   reference[n] - log_factor, penalty);
    error += std::abs(std::exp(std::log(sum[n]) + log_factor) - wanted);
  }
  return error;
}

// The next g from c and κ, relaxed and translated. `row` are the potentials f. False if a c was
// lost to the range of the format: that column keeps its g.
template <class T>
bool SinkhornIteration<T>::soft_columns(std::span<const double> row, std::span<const double> sum,
                                        std::span<const double> factor, double relaxation,
                                        std::span<double> next) const {
  const MarginalPenalties& penalties = *marginals_.penalties;
  bool complete = true;
  for (std::size_t j = 0; j < sum.size(); ++j) {
    next[j] = minus_infinity;
    if (factor[j] == 0) continue;
    const auto column = static_cast<Index>(j);
    const double reference = kernel_.col_reference(column);
    const double before = reference - std::log(factor[j]);
    next[j] = before;
    if (!(sum[j] > 0 && std::isfinite(sum[j]))) {
      complete = false;
      continue;
    }
    const double exact = soft_exponent(penalties.col) *
                         (reference + std::log(sum[j]) - log_marginal(marginals_.col, column));
    next[j] = relaxation == 1 ? exact : before + relaxation * (exact - before);
  }
  const double translation =
      soft_translation(penalties, log_soft_mass(marginals_.row, row, penalties.row),
                       log_soft_mass(marginals_.col, next, penalties.col));
  for (double& g : next) g += translation;
  return complete;
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
  PooledVector<double> row_shift;
  const auto absorb = [&] {
    if (!have_row || !can_absorb(row, col)) return false;
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
  row_shift = soft_shift();

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
    pass.row_shift = row_shift;
    if (marginals_.penalties) pass.row_exponent = soft_exponent(marginals_.penalties->row);
    passes_.run(pass);
    if (!rows_in_range(row_sum, row_factor)) {
      set_col_potentials(col_factor, col);
      return Left::range;
    }
    MarginalErrors errors;
    if (marginals_.penalties) {
      // Rows have the sums that they call for, unless they are relaxed.
      if (*relaxation != 1) {
        errors.row = soft_error(row_sum, row_factor, marginals_.row,
                                references(scores_.rows(), true), marginals_.penalties->row);
      }
      errors.col = soft_error(col_sum, col_factor, marginals_.col,
                              references(scores_.cols(), false), marginals_.penalties->col);
    }
    for (std::size_t i = 0; !marginals_.penalties && i < row.size(); ++i) {
      const double a = row_marginal_.empty() ? 1 : row_marginal_[i];
      const bool exact = *relaxation == 1 && row_factor[i] != 0;
      if (!exact) errors.row += std::abs(row_factor[i] * row_sum[i] - a);
    }
    for (std::size_t j = 0; !marginals_.penalties && j < col.size(); ++j) {
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
    if (marginals_.penalties) {
      set_row_potentials(row_factor, row);
      if (!soft_columns(row, col_sum, col_factor, *relaxation, col)) return Left::range;
      in_range = find_factors(col, col_factor);
    } else {
      for (std::size_t j = 0; j < col.size(); ++j) {
        double& factor = col_factor[j];
        if (factor == 0) continue;
        const double b = col_marginal_.empty() ? 1 : col_marginal_[j];
        const double exact = b / col_sum[j];
        factor = *relaxation == 1 ? exact : factor * std::pow(exact / factor, *relaxation);
        in_range = in_range && factor <= most && factor * most >= 1;
      }
    }
    if (in_range) continue;
    if (!marginals_.penalties) {
      set_row_potentials(row_factor, row);
      set_col_potentials(col_factor, col);
    }
    if (!absorb()) return Left::range;
    take_row_factors();
    row_shift = soft_shift();
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
    MarginalErrors errors;
    if (marginals_.penalties) {
      errors = soft_maxima(col, row, next);
    } else {
      removing_maxima(col, row, next);
      errors = errors_of(col, row, next);
    }
    have_row = true;
    relaxation = callback(errors);
    if (!relaxation) return;
    std::copy(next.begin(), next.end(), col.begin());
  }
}

// LSE_j(s_ij − f_j) − log a_i by a product with the kernel, whose rows and columns have one
// reference; false if that is out of range.
template <class T>
bool SinkhornIteration<T>::symmetric_product(std::span<const double> potential,
                                             std::span<double> exact) {
  PooledVector<double> factor;
  if (!kernel_.refers() || !find_factors(potential, factor)) return false;
  ScalingPass pass;
  pass.row_scale = factor;
  pass.col_sum = exact;
  passes_.run(pass);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    if (potential[i] == minus_infinity) {
      exact[i] = minus_infinity;
      continue;
    }
    if (!(exact[i] > 0 && std::isfinite(exact[i]))) return false;
    const auto line = static_cast<Index>(i);
    exact[i] =
        kernel_.row_reference(line) + (std::log(exact[i]) - log_marginal(marginals_.row, line));
  }
  return true;
}

template <class T>
void SinkhornIteration<T>::iterate_symmetric(std::span<double> potential,
                                             const IterationCallback& callback) {
  PooledVector<double> exact(potential.size());
  for (;;) {
    const bool by_product = symmetric_product(potential, exact);
    if (!by_product) {
      Pass<T> pass;
      pass.scores = &scores_;
      pass.completes = Completes::rows;
      pass.components = {Component{1, exact, potential}};
      pass.log_marginal = marginals_.row;
      run(pass, threads_);
    }
    MarginalErrors errors;
    double total = 0;
    for (std::size_t i = 0; i < potential.size(); ++i) {
      const double a = row_marginal_.empty() ? 1 : row_marginal_[i];
      const bool open = potential[i] != minus_infinity;
      errors.row += a * (open ? std::abs(std::expm1(exact[i] - potential[i])) : 1);
      total += a;
    }
    errors.col = errors.row;
    if (!callback(errors)) return;
    for (std::size_t i = 0; i < potential.size(); ++i) {
      if (potential[i] != minus_infinity) potential[i] = (potential[i] + exact[i]) / 2;
    }
    if (by_product) continue;
    // Far from the solution, the plan may be out of the format's range.
    const bool near = errors.row <= total && can_absorb(potential, potential);
    near ? kernel_.refer_to(potential, potential) : kernel_.refer_to({}, {});
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
  // Sums by slot; the kernel's reference; marginals, factors and sums; with penalties the shift of
  // rows, and masses and next factors of columns.
  const Partition partition = row_pass_partition(rows, cols, element_size);
  return std::max(scaling, log_rows) + ColumnSums<float>::bytes(partition) +
         (4 * rows + 5 * cols) * static_cast<std::int64_t>(sizeof(double));
}

template class SinkhornIteration<float>;
template class SinkhornIteration<double>;

}  // namespace attn
