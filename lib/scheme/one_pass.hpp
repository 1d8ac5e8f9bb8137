#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheme/pass.hpp"

/// Attention in one pass over the scores, for observers that take rows before they are normalised
/// (Observer::by_row): the memory of a tile or a panel, and every score made once.
namespace attn {

/// Whether all of `observers` take rows before they are normalised, as one_pass_* need it.
template <class T>
bool all_by_row(const std::vector<Observer<T>*>& observers);

/// unas: f_i = LSE_j s_ij by the running softmax over tiles, which rescales what a row has gathered
/// when its maximum grows. `row` (Lq) is written, −inf for a query with nothing allowed. Results
/// are the same to the last bit for any number of threads. Throws what the scores and observers
/// throw.
template <class T>
void one_pass_rows(const Scores<T>& scores, std::span<double> row,
                   const std::vector<Observer<T>*>& observers, int threads);

/// Bytes of scratch memory of one_pass_rows, observers not counted.
std::int64_t one_pass_rows_bytes(std::size_t element_size, int threads);

/// dnas: g_j = LSE_i s_ij and f_i = LSE_j(s_ij − g_j), by panels of all queries × some keys: a
/// panel completes E_ij = exp(s_ij − m_j) and c_j = Σ_i E_ij while it is in cache and shows E_ij /
/// c_j, whose row sums r_i = Σ_j E_ij / c_j = exp f_i are complete, and divided by, after the last
/// one. Queries whose r_i is so small that exponentials which count were flushed to 0 (no key
/// prefers them) are left with nothing gathered and listed in ascending order: for them f and the
/// weights are still to be found, from g. `row` (Lq) and `col` (Lk) are written, −inf where nothing
/// is allowed. Bits and errors as above.
template <class T>
std::vector<Index> one_pass_columns(const Scores<T>& scores, std::span<double> row,
                                    std::span<double> col,
                                    const std::vector<Observer<T>*>& observers, int threads);

/// How one_pass_columns cuts its panels, in few slots, as observers keep a sum by row for each.
Partition one_pass_columns_partition(Index rows, Index cols, std::size_t element_size);

/// Bytes of scratch memory of one_pass_columns, observers not counted.
std::int64_t one_pass_columns_bytes(Index rows, Index cols, std::size_t element_size, int threads);

}  // namespace attn
