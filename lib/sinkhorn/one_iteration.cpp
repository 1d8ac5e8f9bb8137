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
                       const ObserverList<T>& observers, int threads, const RowSelection* rows) {
  const RowPass<T> blocks{&scores, row, col, observers, rows};
  if (can_run_rows(blocks)) {
    run_rows(blocks, threads);
    return;
  }
  Pass<T> pass;
  pass.scores = &scores;
  pass.completes = Completes::rows;
  pass.components = {Component{1, row, col}};
  pass.observers = observers;
  pass.rows = rows;
  run(pass, threads);
}

template <class T>
void complete_rows_left(const Scores<T>& scores, const AllowedCounts& allowed,
                        const PooledVector<Index>& left, const PooledVector<Component>& components,
                        const PooledVector<std::span<double>>& rows,
                        const ObserverList<T>& observers, int threads) {
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
                     std::span<double> col, const ObserverList<T>& observers, int threads) {
  if (!all_by_row(observers)) {
    first_columns(scores, col, threads);
    rows_from_columns(scores, row, col, observers, threads);
    return;
  }
  const PooledVector<Index> left = one_pass_columns(scores, row, col, observers, threads);
  PooledVector<double> completed(row.size());
  complete_rows_left(scores, allowed, left, {Component{1, completed, col}}, {row}, observers,
                     threads);
}

#define ATTN_ONE_ITERATION(T)                                                                      \
  template void first_columns(const Scores<T>&, std::span<double>, int);                           \
  template void rows_from_columns(const Scores<T>&, std::span<double>, std::span<double>,          \
                                  const ObserverList<T>&, int, const RowSelection*);               \
  template void complete_rows_left(const Scores<T>&, const AllowedCounts&,                         \
                                   const PooledVector<Index>&, const PooledVector<Component>&,     \
                                   const PooledVector<std::span<double>>&, const ObserverList<T>&, \
                                   int);                                                           \
  template void first_iteration(const Scores<T>&, const AllowedCounts&, std::span<double>,         \
                                std::span<double>, const ObserverList<T>&, int)
ATTN_ONE_ITERATION(float);
ATTN_ONE_ITERATION(double);
#undef ATTN_ONE_ITERATION

}  // namespace attn
