#pragma once

#include <cstdint>

#include "common/outputs/pair_writer.hpp"
#include "score/scores.hpp"

/// The results `scores` and `energies` of one head, (Lq, Lk) each, made and written tile by tile.
namespace attn::tools {

/// Writes the input of the softmax: the scores of allowed pairs, with all terms, and −inf for other
/// pairs. With `chosen`, only these queries. Throws the errors of Scores::fill. The bits do not
/// depend on the number of threads.
template <class T>
void write_scores(const Scores<T>& scores, PairWriter<T>& writer, const RowSelection* chosen,
                  int threads);

/// Writes the energies of all pairs, scale included, before soft cap, biases and masks. Throws
/// Error(numerical) naming a pair whose energy is beyond the range of T, even if it is forbidden.
template <class T>
void write_energies(const Energy<T>& energy, PairWriter<T>& writer, const RowSelection* chosen,
                    int threads);

/// Bytes that these functions take with `threads` threads, including the parts of biases and masks
/// that a tile needs.
std::int64_t score_results_bytes(std::size_t element_size, int threads);

}  // namespace attn::tools
