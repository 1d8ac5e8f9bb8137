#include "scheme/steps.hpp"

#include <algorithm>

#include "pass/one_pass.hpp"
#include "sinkhorn/one_iteration.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

template <class T>
void show_completed_rows(const Scores<T>& scores, std::span<double> col, const RowSelection& rows,
                         const ObserverList<T>& observers, int threads, double sink) {
  PooledVector<double> row(static_cast<std::size_t>(scores.rows()));
  rows_from_columns<T>(scores, row, col, observers, threads, &rows, sink);
}

std::int64_t row_bytes(Index rows, Index cols, Index components, std::size_t element_size,
                       int threads) {
  return std::max(pass_bytes(Order::row_panels, rows, cols, static_cast<std::size_t>(components),
                             element_size, threads),
                  row_pass_bytes(rows, cols, element_size, false, threads));
}

std::int64_t row_and_column_bytes(Index rows, Index cols, Index components,
                                  std::size_t element_size, int threads) {
  return std::max({row_bytes(rows, cols, components, element_size, threads),
                   pass_bytes(Order::column_panels, rows, cols, 1, element_size, threads),
                   one_pass_columns_bytes(rows, cols, element_size, components, threads)});
}

template void show_completed_rows(const Scores<float>&, std::span<double>, const RowSelection&,
                                  const ObserverList<float>&, int, double);
template void show_completed_rows(const Scores<double>&, std::span<double>, const RowSelection&,
                                  const ObserverList<double>&, int, double);

}  // namespace attn
