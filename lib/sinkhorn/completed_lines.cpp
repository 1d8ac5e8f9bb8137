#include "sinkhorn/completed_lines.hpp"

#include <algorithm>
#include <utility>

#include "pass/pass.hpp"
#include "pass/potentials.hpp"
#include "sinkhorn/column_potentials.hpp"
#include "sinkhorn/plan_products.hpp"
#include "tensor/infinity.hpp"

namespace attn {
namespace {

// The products of the plan of these potentials.
template <class T>
PlanProducts<T> line_products(const Scores<T>& scores, PooledVector<double> row,
                              PooledVector<double> col, PlanProducts<T> products, int threads) {
  Potentials potentials{std::move(row), std::move(col), {}};
  show_weights<T>(scores, potentials, 0, {&products}, threads);
  return products;
}

// NaN for lines without an open pair.
PooledVector<double> known_means(PooledVector<double> means,
                                 const PooledVector<double>& completed) {
  for (std::size_t n = 0; n < means.size(); ++n) {
    if (completed[n] == minus_infinity) means[n] = std::numeric_limits<double>::quiet_NaN();
  }
  return means;
}

}  // namespace

bool is_empty(std::span<const double> masses) {
  return std::all_of(masses.begin(), masses.end(), [](double mass) { return mass == 0; });
}

PooledVector<double> reached_potentials(std::span<const double> other,
                                        std::span<const double> masses,
                                        std::span<const double> other_masses) {
  PooledVector<double> reached(other.begin(), other.end());
  if (!is_empty(masses)) return reached;
  std::transform(other_masses.begin(), other_masses.end(), reached.begin(),
                 [](double mass) { return mass > 0 ? 0 : minus_infinity; });
  return reached;
}

template <class T>
PooledVector<double> completed_rows(const Scores<T>& scores, std::span<const double> col,
                                    int threads) {
  PooledVector<double> row(static_cast<std::size_t>(scores.rows()));
  PooledVector<double> given(col.begin(), col.end());
  Pass<T> pass;
  pass.scores = &scores;
  pass.completes = Completes::rows;
  pass.components = {Component{1, row, given}};
  run(pass, threads);
  return row;
}

template <class T>
PooledVector<double> completed_cols(const Scores<T>& scores, std::span<const double> row,
                                    int threads) {
  PooledVector<double> given(row.begin(), row.end());
  PooledVector<double> col(static_cast<std::size_t>(scores.cols()));
  column_potentials<T>(scores, given, col, {}, threads);
  return col;
}

template <class T>
PooledVector<double> row_means(const Scores<T>& scores, std::span<const double> col,
                               const MatrixSource<T>* g, std::span<const double> v, int threads) {
  const PooledVector<double> row = completed_rows(scores, col, threads);
  return known_means(
      line_products<T>(scores, row, {col.begin(), col.end()}, {{}, v, g}, threads).rows(), row);
}

template <class T>
PooledVector<double> col_means(const Scores<T>& scores, std::span<const double> row,
                               const MatrixSource<T>* g, std::span<const double> u, int threads) {
  const PooledVector<double> col = completed_cols(scores, row, threads);
  return known_means(
      line_products<T>(scores, {row.begin(), row.end()}, col, {u, {}, g}, threads).cols(), col);
}

std::int64_t completed_lines_bytes(Index rows, Index cols, std::size_t element_size, int threads) {
  const Partition partition = partition_of(Order::row_panels, rows, cols, element_size);
  return std::max(pass_bytes(Order::column_panels, rows, cols, 1, element_size, threads),
                  pass_bytes(Order::row_panels, rows, cols, 1, element_size, threads) +
                      PlanProducts<double>::bytes(partition, threads)) +
         2 * (rows + cols) * static_cast<std::int64_t>(sizeof(double));
}

#define ATTN_FOR_TYPE(T)                                                                         \
  template PooledVector<double> completed_rows(const Scores<T>&, std::span<const double>, int);  \
  template PooledVector<double> completed_cols(const Scores<T>&, std::span<const double>, int);  \
  template PooledVector<double> row_means(const Scores<T>&, std::span<const double>,             \
                                          const MatrixSource<T>*, std::span<const double>, int); \
  template PooledVector<double> col_means(const Scores<T>&, std::span<const double>,             \
                                          const MatrixSource<T>*, std::span<const double>, int);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
