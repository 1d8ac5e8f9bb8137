#pragma once

#include "head/attend_head.hpp"
#include "plan/attention_layout.hpp"

namespace attn {

/// Throws Error(usage) for an output that the plan's operands and scheme do not have, Error(input)
/// for an output of a wrong shape.
template <class T>
void require_outputs(const AttentionLayout& layout, const AttentionOutputs<T>& outputs);

/// Computes a head's outputs into the arrays of all heads: attend_head.
template <class T>
void attend_planned(const AttentionLayout& layout, const AttentionOutputs<T>& outputs,
                    bool differentiated, HeadWork<T>& head, int threads);

/// Throws Error(usage) for a plan that cannot start from results, Error(input) for a result that is
/// missing or has another shape.
template <class T>
void require_results(const AttentionLayout& layout, const AttentionResults<T>& results);

/// Takes a head's potentials and output from `results`, in place of attend_planned. `work.out` then
/// must not be written.
template <class T>
void take_results(const AttentionLayout& layout, const AttentionResults<T>& results,
                  HeadWork<T>& work);

/// The outcome of a computed head.
template <class T>
ProblemSummary summary_of(const AttentionLayout& layout, const HeadWork<T>& work);

/// The most bytes that attend_planned and its head allocate from the pool.
template <class T>
std::int64_t attend_head_bytes(const AttentionLayout& layout, bool differentiated, int threads);

}  // namespace attn
