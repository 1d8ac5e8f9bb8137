#pragma once

#include <cstdint>
#include <span>

#include "pass/pass.hpp"

/// Steps that schemes share.
namespace attn {

/// Shows the weights of the chosen queries as solving shows them, for f_i = LSE_j(s_ij − g_j) and g
/// = `col`; an empty `col` means zeros. Rows are completed anew, because exp((s − g) − m) / Σ
/// rounds differently from exp((s − g) − f).
template <class T>
void show_completed_rows(const Scores<T>& scores, std::span<double> col, const RowSelection& rows,
                         const ObserverList<T>& observers, int threads, double sink = no_sink);

/// Bytes of passes by rows with `components` components.
std::int64_t row_bytes(Index rows, Index cols, Index components, std::size_t element_size,
                       int threads);

/// Bytes of passes by rows or columns.
std::int64_t row_and_column_bytes(Index rows, Index cols, Index components,
                                  std::size_t element_size, int threads);

}  // namespace attn
