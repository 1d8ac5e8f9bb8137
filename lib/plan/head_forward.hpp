#pragma once

#include <optional>

#include "plan/attention_arrays.hpp"

namespace attn {

/// One head while it is worked on: what it is computed of, and its results so far. `head` must have
/// been bound.
template <class T>
struct HeadWork {
  BoundHead<T> head;
  std::optional<HeadScores<T>> scores;
  SchemeOptions scheme;
  Attention attention;
  Buffer<T> out_storage;  ///< of `out`, where it is not an output
  MatrixView<T> out;
};

/// Throws Error(usage) for an output that the plan's operands and scheme cannot give, Error(input)
/// for one of another shape.
template <class T>
void require_outputs(const AttentionLayout& layout, const AttentionOutputs<T>& outputs);

/// Computes a head's outputs into the arrays of all heads. `needs_out`: keeps it in `work` even if
/// it is no output. Throws what HeadScores and attend throw.
template <class T>
void attend_head(const AttentionLayout& layout, const AttentionOutputs<T>& outputs, bool needs_out,
                 HeadWork<T>& work, int threads);

/// What became of it.
template <class T>
ProblemSummary summary_of(const HeadWork<T>& work);

/// Bytes that attend_head and `work` allocate from the pool at most.
template <class T>
std::int64_t attend_head_bytes(const AttentionLayout& layout, bool needs_out, int threads);

}  // namespace attn
