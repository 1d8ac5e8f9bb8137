#include "scheme/scheme.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "pass/one_pass.hpp"
#include "pass/output.hpp"
#include "sinkhorn/attention_iterations.hpp"
#include "sinkhorn/one_iteration.hpp"
#include "sinkhorn/sinkhorn.hpp"

namespace attn {
namespace {

template <class T>
class Solver {
 public:
  Solver(const Scores<T>& scores, const SchemeOptions& options, const ObserverList<T>& observers,
         int threads)
      : scores_(scores), options_(options), observers_(observers), threads_(threads) {
    found_.allowed = scores.allowed_counts();
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

  void complete_rows(const PooledVector<Component>& components, const ObserverList<T>& observers) {
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

  void solve_doubly(const ObserverList<T>& observers) {
    first_iteration(scores_, found_.allowed, row(), col(), observers, threads_);
  }

  void close_empty_keys() {
    for (std::size_t j = 0; j < found_.potentials.col.size(); ++j) {
      if (found_.allowed.queries_of_key[j] == 0) {
        found_.potentials.col[j] = -std::numeric_limits<double>::infinity();
      }
    }
  }

  void solve_hybrid() {
    auto& unas_row = found_.potentials.unas_row;
    unas_row.assign(static_cast<std::size_t>(scores_.rows()), 0.0);
    // At its ends the mixture is one of the two schemes, to the last bit.
    if (options_.hybrid == 0 || options_.hybrid == 1) {
      const ObserverList<T> nobody;
      solve_doubly(options_.hybrid == 1 ? observers_ : nobody);
      run_rows<T>({&scores_, unas_row, {}, options_.hybrid == 0 ? observers_ : nobody}, threads_);
      return;
    }
    if (!all_by_row(observers_)) {
      first_columns(scores_, col(), threads_);
      complete_rows(hybrid_components(options_.hybrid, row(), col(), unas_row), observers_);
      return;
    }
    const auto left =
        one_pass_hybrid<T>(scores_, options_.hybrid, row(), unas_row, col(), observers_, threads_);
    PooledVector<double> completed(row().size());
    PooledVector<double> unas_completed(row().size());
    complete_rows_left(scores_, found_.allowed, left,
                       hybrid_components(options_.hybrid, completed, col(), unas_completed),
                       {row(), unas_row}, observers_, threads_);
  }

  void solve_sinkhorn() {
    found_.summary = iterate_attention(scores_, found_.allowed, options_, options_.kept_bytes,
                                       found_.potentials, observers_, threads_);
  }

  const Scores<T>& scores_;
  const SchemeOptions& options_;
  const ObserverList<T>& observers_;
  int threads_;
  Attention found_;
};

}  // namespace

template <class T>
Attention attend(const Scores<T>& scores, const SchemeOptions& options,
                 const ObserverList<T>& observers, int threads) {
  return Solver<T>(scores, options, observers, threads).solve();
}

template <class T>
void show_rows(const Scores<T>& scores, const SchemeOptions& options, Potentials& potentials,
               const RowSelection& rows, const ObserverList<T>& observers, int threads) {
  // At its ends the mixture is one of the two schemes.
  const bool hybrid = options.scheme == Scheme::hnas && options.hybrid != 0 && options.hybrid != 1;
  const bool softmax =
      is_softmax(options.scheme) || (options.scheme == Scheme::hnas && options.hybrid == 0);
  Pass<T> pass;
  pass.scores = &scores;
  pass.observers = observers;
  pass.rows = &rows;
  if (options.scheme == Scheme::sinkhorn && !options.fixed()) {
    pass.completes = Completes::nothing;
    pass.components = {Component{1, potentials.row, potentials.col}};
    run(pass, threads);
    return;
  }
  // Completed anew, because exp((s − g) − m) / Σ rounds differently from exp((s − g) − f).
  const auto queries = static_cast<std::size_t>(scores.rows());
  PooledVector<double> row(queries);
  PooledVector<double> unas_row(hybrid ? queries : 0);
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

std::int64_t output_bytes(Scheme scheme, Index queries, Index keys, Index depth,
                          std::size_t element_size) {
  const bool by_columns = scheme == Scheme::dnas || scheme == Scheme::hnas;
  const Partition partition =
      by_columns
          ? one_pass_columns_partition(queries, keys, element_size, scheme == Scheme::hnas ? 2 : 1)
          : partition_of(Order::row_panels, queries, keys, element_size);
  return element_size == sizeof(double) ? Output<double>::bytes(partition, depth)
                                        : Output<float>::bytes(partition, depth);
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
  if (options.scheme != Scheme::sinkhorn || options.once()) return 0;
  return rows * cols * static_cast<std::int64_t>(element_size);
}

template Attention attend(const Scores<float>&, const SchemeOptions&, const ObserverList<float>&,
                          int);
template Attention attend(const Scores<double>&, const SchemeOptions&, const ObserverList<double>&,
                          int);
template void show_rows(const Scores<float>&, const SchemeOptions&, Potentials&,
                        const RowSelection&, const ObserverList<float>&, int);
template void show_rows(const Scores<double>&, const SchemeOptions&, Potentials&,
                        const RowSelection&, const ObserverList<double>&, int);

}  // namespace attn
