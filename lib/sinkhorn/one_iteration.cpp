#include "sinkhorn/one_iteration.hpp"

#include <algorithm>
#include <utility>

#include "pass/one_pass.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

template <class T>
void first_columns(const Scores<T>& scores, std::span<double> col, int threads) {
  one_pass_columns(scores, std::span<double>(), col, {}, threads);
}

template <class T>
void rows_from_columns(const Scores<T>& scores, std::span<double> row, std::span<double> col,
                       const ObserverList<T>& observers, int threads, const RowSelection* rows,
                       double sink) {
  const RowPass<T> blocks{&scores, row, col, observers, rows, nullptr, sink};
  if (can_run_rows(blocks)) {
    run_rows(blocks, threads);
    return;
  }
  Pass<T> pass;
  pass.scores = &scores;
  pass.completes = Completes::rows;
  pass.components = {Component{1, row, col}};
  pass.observers = observers;
  pass.sink = sink;
  pass.rows = rows;
  run(pass, threads);
}

template <class T>
void complete_rows_left(const Scores<T>& scores, const AllowedCounts& allowed,
                        const PooledVector<Index>& left, const PooledVector<Component>& components,
                        const PooledVector<std::span<double>>& rows,
                        const ObserverList<T>& observers, int threads, double sink) {
  PooledVector<RowRange> ranges;
  for (const Index i : left) {
    if (allowed.keys_of_query[static_cast<std::size_t>(i)] > 0) ranges.push_back({i, i + 1});
  }
  if (ranges.empty()) return;
  const RowSelection chosen(std::move(ranges), scores.rows());
  Pass<T> pass;
  pass.scores = &scores;
  pass.completes = Completes::rows;
  pass.components = components;
  pass.observers = observers;
  pass.sink = sink;
  pass.rows = &chosen;
  pass.resumes = true;
  run(pass, threads);
  for (std::size_t c = 0; c < rows.size(); ++c) {
    for (const RowRange& range : chosen.ranges()) {
      std::copy(components[c].row.begin() + range.first, components[c].row.begin() + range.last,
                rows[c].begin() + range.first);
    }
  }
}

template <class T>
void first_iteration(const Scores<T>& scores, const AllowedCounts& allowed, std::span<double> row,
                     std::span<double> col, const ObserverList<T>& observers, int threads,
                     double sink) {
  if (!all_by_row(observers)) {
    first_columns(scores, col, threads);
    rows_from_columns<T>(scores, row, col, observers, threads, nullptr, sink);
    return;
  }
  const PooledVector<Index> left = one_pass_columns(scores, row, col, observers, threads, sink);
  PooledVector<double> completed(row.size());
  complete_rows_left(scores, allowed, left, {Component{1, completed, col}}, {row}, observers,
                     threads, sink);
}

#define ATTN_ONE_ITERATION(T)                                                                      \
  template void first_columns(const Scores<T>&, std::span<double>, int);                           \
  template void rows_from_columns(const Scores<T>&, std::span<double>, std::span<double>,          \
                                  const ObserverList<T>&, int, const RowSelection*, double);       \
  template void complete_rows_left(const Scores<T>&, const AllowedCounts&,                         \
                                   const PooledVector<Index>&, const PooledVector<Component>&,     \
                                   const PooledVector<std::span<double>>&, const ObserverList<T>&, \
                                   int, double);                                                   \
  template void first_iteration(const Scores<T>&, const AllowedCounts&, std::span<double>,         \
                                std::span<double>, const ObserverList<T>&, int, double)
ATTN_ONE_ITERATION(float);
ATTN_ONE_ITERATION(double);
#undef ATTN_ONE_ITERATION

}  // namespace attn
