#include "sinkhorn/sinkhorn.hpp"

#include <algorithm>
#include <cmath>

#include "pass/column_sums.hpp"
#include "pass/one_pass.hpp"
#include "sinkhorn/column_potentials.hpp"
#include "sinkhorn/iteration_range.hpp"
#include "sinkhorn/scaling_pass.hpp"
#include "sinkhorn/soft_marginals.hpp"
#include "tensor/infinity.hpp"

namespace attn {

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
    column_potentials<T>(scores_, potential, col, marginals_.col, threads_);
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
// at no cost. Unless marginals differ greatly in size, no column sum is near underflow (DN Lemma
// 1).
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
    // A kernel with this reference would lose such a column, too.
    kernel_.refer_to({}, {});
    column_potentials<T>(scores_, row, next, marginals_.col, threads_);
    return;
  }
  for (Index j = 0; j < scores_.cols(); ++j) {
    const auto at = static_cast<std::size_t>(j);
    next[at] = std::isinf(col[at])
                   ? col[at]
                   : col[at] + std::log(sums.values()[at]) - log_marginal(marginals_.col, j);
  }
}

// κ from g; false if one is out of range.
template <class T>
bool SinkhornIteration<T>::find_factors(std::span<const double> col,
                                        PooledVector<double>& factor) const {
  const double most = most_from_reference<T>(kernel_.refers_to_zero());
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
  const double most = std::exp(most_from_reference<T>(kernel_.refers_to_zero()));
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
