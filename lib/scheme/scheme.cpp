#include "scheme/scheme.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "scheme/one_pass.hpp"
#include "scheme/sinkhorn.hpp"

namespace attn {
namespace {

bool fixed_iterations(const SchemeOptions& options) {
  return options.iterations && !options.tolerance;
}

std::vector<Component> hybrid_components(double hybrid, std::span<double> row,
                                         std::span<double> col, std::span<double> unas_row) {
  return {Component{hybrid, row, col}, Component{1 - hybrid, unas_row, {}}};
}

template <class T>
class Solver {
 public:
  Solver(const Scores<T>& scores, const SchemeOptions& options,
         const std::vector<Observer<T>*>& observers, int threads)
      : scores_(scores), options_(options), observers_(observers), threads_(threads) {
    found_.support = scores.support();
    found_.potentials.row.assign(static_cast<std::size_t>(scores.rows()), 0.0);
    found_.potentials.col.assign(static_cast<std::size_t>(scores.cols()), 0.0);
  }

  Attention solve() {
    switch (options_.scheme) {
      case Scheme::unas:
      case Scheme::fenchel:
        solve_softmax();
        break;
      case Scheme::dnas:
        solve_doubly(observers_);
        break;
      case Scheme::hnas:
        solve_hybrid();
        break;
      case Scheme::sinkhorn:
        solve_sinkhorn();
        break;
    }
    return std::move(found_);
  }

 private:
  std::span<double> row() { return found_.potentials.row; }
  std::span<double> col() { return found_.potentials.col; }

  void complete_rows(const std::vector<Component>& components,
                     const std::vector<Observer<T>*>& observers) {
    Pass<T> pass;
    pass.scores = &scores_;
    pass.order = Order::row_panels;
    pass.completes = Completes::rows;
    pass.components = components;
    pass.observers = observers;
    run(pass, threads_);
  }

  void solve_softmax() {
    run_rows<T>({&scores_, row(), {}, observers_}, threads_);
    close_empty_keys();
  }

  void solve_doubly(const std::vector<Observer<T>*>& observers) {
    if (all_by_row(observers)) {
      const auto left = one_pass_columns(scores_, row(), col(), observers, threads_);
      std::vector<double> completed(row().size());
      complete_the_rest(left, {Component{1, completed, col()}}, {row()}, observers);
    } else {
      first_columns();
      rows_from_columns(observers);
    }
  }

  // f from g.
  void rows_from_columns(const std::vector<Observer<T>*>& observers) {
    const RowPass<T> pass{&scores_, row(), col(), observers};
    if (can_run_rows(pass)) {
      run_rows(pass, threads_);
    } else {
      complete_rows({Component{1, row(), col()}}, observers);
    }
  }

  // g for f = 0, to the same bits whatever is observed.
  void first_columns() { one_pass_columns(scores_, std::span<double>(), col(), {}, threads_); }

  // Those of the queries that a pass by columns left which have a key at all: each component's f of
  // them goes to one of `rows`.
  void complete_the_rest(const std::vector<Index>& left, const std::vector<Component>& components,
                         const std::vector<std::span<double>>& rows,
                         const std::vector<Observer<T>*>& observers) {
    std::vector<RowRange> ranges;
    for (const Index i : left) {
      if (found_.support.keys_of_query[static_cast<std::size_t>(i)] > 0) {
        ranges.push_back({i, i + 1});
      }
    }
    if (ranges.empty()) return;
    const RowSelection chosen(std::move(ranges), scores_.rows());
    Pass<T> pass;
    pass.scores = &scores_;
    pass.completes = Completes::rows;
    pass.components = components;
    pass.observers = observers;
    pass.rows = &chosen;
    pass.resumes = true;
    run(pass, threads_);
    for (std::size_t c = 0; c < rows.size(); ++c) {
      for (const RowRange& range : chosen.ranges()) {
        std::copy(components[c].row.begin() + range.first, components[c].row.begin() + range.last,
                  rows[c].begin() + range.first);
      }
    }
  }

  void close_empty_keys() {
    for (std::size_t j = 0; j < found_.potentials.col.size(); ++j) {
      if (found_.support.queries_of_key[j] == 0) {
        found_.potentials.col[j] = -std::numeric_limits<double>::infinity();
      }
    }
  }

  void solve_hybrid() {
    auto& unas_row = found_.potentials.unas_row;
    unas_row.assign(static_cast<std::size_t>(scores_.rows()), 0.0);
    // At its ends the mixture is one of the two, to the last bit.
    if (options_.hybrid == 0 || options_.hybrid == 1) {
      const std::vector<Observer<T>*> nobody;
      solve_doubly(options_.hybrid == 1 ? observers_ : nobody);
      run_rows<T>({&scores_, unas_row, {}, options_.hybrid == 0 ? observers_ : nobody}, threads_);
      return;
    }
    if (!all_by_row(observers_)) {
      first_columns();
      complete_rows(hybrid_components(options_.hybrid, row(), col(), unas_row), observers_);
      return;
    }
    const auto left =
        one_pass_hybrid<T>(scores_, options_.hybrid, row(), unas_row, col(), observers_, threads_);
    std::vector<double> completed(row().size());
    std::vector<double> unas_completed(row().size());
    complete_the_rest(left, hybrid_components(options_.hybrid, completed, col(), unas_completed),
                      {row(), unas_row}, observers_);
  }

  void solve_sinkhorn() {
    const auto queries = static_cast<double>(scores_.rows() - found_.support.empty_queries());
    const auto keys = static_cast<double>(scores_.cols() - found_.support.empty_keys());
    // Keys without a query need no marginal of their own: their column sums to 0, which closes it.
    const double log_b = keys > 0 ? std::log(queries / keys) : 0;
    if (fixed_iterations(options_) && *options_.iterations == 1) {
      solve_one_iteration(log_b);
      return;
    }
    const std::vector<double> log_marginal(static_cast<std::size_t>(scores_.cols()), log_b);
    SinkhornIteration<T> iteration(scores_, {{}, log_marginal}, options_.kept_bytes, threads_);
    iteration.start(col());
    if (fixed_iterations(options_)) {
      iterate(iteration, *options_.iterations);
    } else {
      iterate_until(iteration, options_.tolerance.value_or(usual_tolerance(sizeof(T))),
                    options_.iterations.value_or(usual_iterations));
    }
  }

  // As dnas does it, to the last bit where the marginal is 1.
  void solve_one_iteration(double log_b) {
    if (all_by_row(observers_)) {
      solve_doubly(observers_);
      shift_potentials(log_b);
    } else {
      first_columns();
      for (double& g : col()) g -= log_b;
      rows_from_columns(observers_);
    }
  }

  // From the columns' marginal 1 to another constant one: the same weights.
  void shift_potentials(double log_marginal) {
    for (double& g : col()) g -= log_marginal;
    for (double& f : row()) f += log_marginal;
  }

  void iterate(SinkhornIteration<T>& iteration, Index iterations) {
    std::vector<double> next(found_.potentials.col.size());
    for (Index t = 1; t < iterations; ++t) {
      iteration.step(col(), row(), next);
      found_.potentials.col.swap(next);
    }
    iteration.show(col(), row(), observers_);
    found_.summary.iterations = iterations;
  }

  // The next g tells the column sums of the present plan, so the check costs nothing but its last
  // one.
  void iterate_until(SinkhornIteration<T>& iteration, double tolerance, Index most) {
    std::vector<double> next(found_.potentials.col.size());
    SchemeSummary& summary = found_.summary;
    summary.status = SolveStatus::not_converged;
    for (summary.iterations = 1;; ++summary.iterations) {
      iteration.step(col(), row(), next);
      summary.column_error = relative_change(found_.potentials.col, next);
      if (summary.column_error <= tolerance) {
        summary.status = SolveStatus::converged;
        break;
      }
      if (summary.iterations == most) break;
      found_.potentials.col.swap(next);
    }
    if (!observers_.empty()) show_weights(scores_, found_.potentials, 0, observers_, threads_);
  }

  // Σ_j |c_j − b_j| / Σ_j b_j over the open columns, whose b is one and the same.
  static double relative_change(const std::vector<double>& g, const std::vector<double>& next) {
    double error = 0;
    double columns = 0;
    for (std::size_t j = 0; j < g.size(); ++j) {
      if (std::isinf(g[j])) continue;
      error += std::abs(std::expm1(next[j] - g[j]));
      columns += 1;
    }
    return columns > 0 ? error / columns : 0;
  }

  const Scores<T>& scores_;
  const SchemeOptions& options_;
  const std::vector<Observer<T>*>& observers_;
  int threads_;
  Attention found_;
};

}  // namespace

double usual_tolerance(std::size_t element_size) {
  return element_size == sizeof(float) ? 1e-6 : 1e-10;
}

template <class T>
Attention attend(const Scores<T>& scores, const SchemeOptions& options,
                 const std::vector<Observer<T>*>& observers, int threads) {
  return Solver<T>(scores, options, observers, threads).solve();
}

template <class T>
void show_weights(const Scores<T>& scores, Potentials& potentials, double hybrid,
                  const std::vector<Observer<T>*>& observers, int threads) {
  Pass<T> pass;
  pass.scores = &scores;
  pass.completes = Completes::nothing;
  pass.observers = observers;
  if (potentials.unas_row.empty()) {
    pass.components = {Component{1, potentials.row, potentials.col}};
  } else {
    pass.components =
        hybrid_components(hybrid, potentials.row, potentials.col, potentials.unas_row);
  }
  run(pass, threads);
}

template <class T>
void show_rows(const Scores<T>& scores, const SchemeOptions& options, Potentials& potentials,
               const RowSelection& rows, const std::vector<Observer<T>*>& observers, int threads) {
  // At its ends the mixture is one of the two.
  const bool hybrid = options.scheme == Scheme::hnas && options.hybrid != 0 && options.hybrid != 1;
  const bool softmax =
      is_softmax(options.scheme) || (options.scheme == Scheme::hnas && options.hybrid == 0);
  Pass<T> pass;
  pass.scores = &scores;
  pass.observers = observers;
  pass.rows = &rows;
  if (options.scheme == Scheme::sinkhorn && !fixed_iterations(options)) {
    pass.completes = Completes::nothing;
    pass.components = {Component{1, potentials.row, potentials.col}};
    run(pass, threads);
    return;
  }
  // Completed anew, as exp((s − g) − m) / Σ rounds otherwise than exp((s − g) − f).
  const auto queries = static_cast<std::size_t>(scores.rows());
  std::vector<double> row(queries);
  std::vector<double> unas_row(hybrid ? queries : 0);
  pass.completes = Completes::rows;
  RowPass<T> alone{&scores, row, {}, observers, &rows};
  if (!softmax) alone.col = potentials.col;
  if (!hybrid && can_run_rows(alone)) {
    run_rows(alone, threads);
    return;
  }
  if (hybrid) {
    pass.components = hybrid_components(options.hybrid, row, potentials.col, unas_row);
  } else {
    pass.components = {Component{1, row, potentials.col}};
  }
  run(pass, threads);
}

std::int64_t attend_bytes(Scheme scheme, Index rows, Index cols, std::size_t element_size,
                          int threads) {
  const std::size_t components = scheme == Scheme::hnas ? 2 : 1;
  std::int64_t bytes = pass_bytes(Order::row_panels, rows, cols, components, element_size, threads);
  if (!is_softmax(scheme)) {
    bytes = std::max(bytes, pass_bytes(Order::column_panels, rows, cols, 1, element_size, threads));
    bytes = std::max(bytes, one_pass_columns_bytes(rows, cols, element_size,
                                                   static_cast<Index>(components), threads));
  }
  bytes = std::max(bytes, row_pass_bytes(rows, cols, element_size, false, threads));
  if (scheme == Scheme::sinkhorn) {
    bytes = std::max(bytes, sinkhorn_bytes(rows, cols, element_size, threads));
  }
  // Potentials; sinkhorn's next column potential and marginal.
  const Index vectors = 2 * (rows + cols) + (scheme == Scheme::sinkhorn ? 2 * cols : 0);
  return bytes + vectors * static_cast<Index>(sizeof(double));
}

std::int64_t useful_attend_bytes(const SchemeOptions& options, Index rows, Index cols,
                                 std::size_t element_size) {
  const bool once = fixed_iterations(options) && *options.iterations == 1;
  if (options.scheme != Scheme::sinkhorn || once) return 0;
  return rows * cols * static_cast<std::int64_t>(element_size);
}

template Attention attend(const Scores<float>&, const SchemeOptions&,
                          const std::vector<Observer<float>*>&, int);
template Attention attend(const Scores<double>&, const SchemeOptions&,
                          const std::vector<Observer<double>*>&, int);
template void show_weights(const Scores<float>&, Potentials&, double,
                           const std::vector<Observer<float>*>&, int);
template void show_weights(const Scores<double>&, Potentials&, double,
                           const std::vector<Observer<double>*>&, int);
template void show_rows(const Scores<float>&, const SchemeOptions&, Potentials&,
                        const RowSelection&, const std::vector<Observer<float>*>&, int);
template void show_rows(const Scores<double>&, const SchemeOptions&, Potentials&,
                        const RowSelection&, const std::vector<Observer<double>*>&, int);

}  // namespace attn
