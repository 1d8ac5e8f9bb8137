#include "scheme/sinkhorn.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "scheme/column_sums.hpp"
#include "scheme/one_pass.hpp"
#include "scheme/scaling_pass.hpp"

namespace attn {
namespace {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

// How far log κ and log ρ may be from 0. With scores of at most 30 their products lie well inside
// of float32. With a plan as kernel, what was flushed to 0 is then still below 1e-29 of its row,
// and what is left has lost few digits to the rounding of its exponent.
constexpr double most_from_zero = 45;
constexpr double most_from_plan = 10;

// Weights below the smallest float32 are lost, which sums as large as this do not notice.
constexpr double smallest_column_sum = 1e-25;

double log_marginal(std::span<const double> log, Index line) {
  return log.empty() ? 0 : log[static_cast<std::size_t>(line)];
}

}  // namespace

template <class T>
SinkhornIteration<T>::SinkhornIteration(const Scores<T>& scores, const LogMarginals& marginals,
                                        std::int64_t kept_bytes, int threads)
    : scores_(scores), marginals_(marginals), threads_(threads), kernel_(scores, kept_bytes) {
  for (const double log : marginals.row) row_marginal_.push_back(std::exp(log));
}

template <class T>
void SinkhornIteration<T>::start(std::span<double> col) {
  // What f = 0 leaves of the rows: nothing of those that are closed.
  std::vector<double> open;
  std::vector<double> potential;
  for (const double log : marginals_.row) {
    open.push_back(log == minus_infinity ? 0 : 1);
    potential.push_back(log == minus_infinity ? minus_infinity : 0);
  }
  if (kernel_.refers_to_zero()) {
    run_scaling<T>({&kernel_, {}, open, {}, col}, threads_);
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

// The plan's column sums are c_j = b_j exp(g'_j − g_j), and the pass that completes f has them for
// the asking: but for marginals of very different size none is near the bottom of the format (DN
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
    if (std::isinf(col[j]) || sums.values()[j] >= smallest_column_sum) continue;
    // Nor would a kernel in this range have anything of such a column.
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

template <class T>
bool SinkhornIteration<T>::by_products(std::span<const double> col, std::span<double> row,
                                       std::span<double> next) {
  if (!kernel_.refers()) return false;
  const double most = kernel_.refers_to_zero() ? most_from_zero : most_from_plan;
  std::vector<double> factor(col.size());
  for (std::size_t j = 0; j < col.size(); ++j) {
    if (col[j] == minus_infinity) continue;
    const double log = kernel_.col_reference(static_cast<Index>(j)) - col[j];
    if (!(std::abs(log) <= most)) return false;
    factor[j] = std::exp(log);
  }
  run_scaling<T>({&kernel_, factor, row_marginal_, row, next}, threads_);
  for (Index i = 0; i < scores_.rows(); ++i) {
    double& f = row[static_cast<std::size_t>(i)];
    const double log_a = log_marginal(marginals_.row, i);
    if (f == 0 || log_a == minus_infinity) {
      f = minus_infinity;
      continue;
    }
    const double log = std::log(f) - log_a;
    if (!(std::abs(log) <= most)) return false;
    f = kernel_.row_reference(i) + log;
  }
  for (Index j = 0; j < scores_.cols(); ++j) {
    const auto at = static_cast<std::size_t>(j);
    next[at] = std::isinf(col[at]) ? col[at]
                                   : kernel_.col_reference(j) + std::log(next[at]) -
                                         log_marginal(marginals_.col, j);
  }
  return true;
}

template <class T>
void SinkhornIteration<T>::show(std::span<double> col, std::span<double> row,
                                const std::vector<Observer<T>*>& observers) {
  RowPass<T> alone{&scores_, row, col, observers};
  if (marginals_.row.empty() && can_run_rows(alone)) {
    if (kernel_.refers_to_zero()) alone.kernel = &kernel_;
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
