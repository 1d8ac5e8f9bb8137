#pragma once

#include <optional>

#include "plan/attention_arrays.hpp"
#include "plan/repeated_scores.hpp"

namespace attn {

/// One head while it is computed: its inputs, and its results so far. `head` must have been bound.
template <class T>
struct HeadWork {
  BoundHead<T> head;
  OwnPart part;
  std::optional<HeadScores<T>> plain;         ///< the scores, unless attention is repeated
  std::optional<RepeatedScores<T>> repeated;  ///< else these
  SchemeOptions scheme;
  WeightDropout dropout;
  Attention attention;
  Buffer<T> out_storage;  ///< memory of `out` if it is not an output
  MatrixView<T> out;      ///< of the own queries

  const Scores<T>& scores() const { return repeated ? repeated->scores() : plain->scores(); }
};

/// Throws Error(usage) for an output that the plan's operands and scheme do not have, Error(input)
/// for one of a wrong shape.
template <class T>
void require_outputs(const AttentionLayout& layout, const AttentionOutputs<T>& outputs);

/// Computes a head's outputs into the arrays of all heads. `needs_out`: keeps `out` in `work` even
/// if it is not an output, and whatever else gradients need. Throws the errors of HeadScores and
/// attend.
template <class T>
void attend_head(const AttentionLayout& layout, const AttentionOutputs<T>& outputs, bool needs_out,
                 HeadWork<T>& work, int threads);

/// Throws Error(usage) for a plan that cannot start from results, Error(input) for a result that is
/// missing or has another shape.
template <class T>
void require_results(const AttentionLayout& layout, const AttentionResults<T>& results);

/// Takes a head's potentials and output from `results`, in place of attend_head. `work.out` then
/// must not be written.
template <class T>
void take_results(const AttentionLayout& layout, const AttentionResults<T>& results,
                  HeadWork<T>& work, int threads);

/// The outcome of a computed head.
template <class T>
ProblemSummary summary_of(const AttentionLayout& layout, const HeadWork<T>& work);

/// The most bytes that attend_head and `work` allocate from the pool.
template <class T>
std::int64_t attend_head_bytes(const AttentionLayout& layout, bool needs_out, int threads);

}  // namespace attn
