#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "pass/attention.hpp"
#include "pass/rank_rows.hpp"

namespace attn {

/// Finds the potentials of `scores` and shows every weight to `observers`. Without observers,
/// computes only what the potentials need. Memory O(Lq + Lk) and a few panels. Sinkhorn's marginals
/// are a = 1 and b = (queries with a key)/(keys with a query), 0 for lines without an allowed pair.
/// Sinkhorn's first iteration with b = 1 is dnas to the last bit. Under unas and hnas every row
/// sums to 1. Throws whatever the scores and observers throw.
template <class T>
Attention attend(const Scores<T>& scores, const SchemeOptions& options,
                 const ObserverList<T>& observers, int threads);

/// Shows the weights of the chosen queries as attend(scores, options, observers, …) shows them, to
/// the last bit, given the `potentials` that attend found. The weights are normalised over all
/// queries and keys; the cost is O(chosen · Lk), by whole panels. unas needs no potentials, dnas
/// and hnas only `col`.
template <class T>
void show_rows(const Scores<T>& scores, const SchemeOptions& options, Potentials& potentials,
               const RowSelection& rows, const ObserverList<T>& observers, int threads);

/// The sink's weight in each query's attention (Lq), 0 without a sink: exp(sink − f_i), for hnas
/// the mixture of both parts. It is 1 for a query with nothing allowed.
PooledVector<double> sink_weights(const Potentials& potentials, const SchemeOptions& options);

/// Adds the sink's own term −w log w to each query's entropy.
void add_sink_entropies(const PooledVector<double>& sink_weights, std::span<double> entropies);

/// The largest SchemeOptions::kept_bytes that attend can use; with ranks, on the rank that has the
/// most rows.
std::int64_t useful_attend_bytes(const SchemeOptions& options, Index rows, Index cols,
                                 std::size_t element_size, const RankRows& ranks = {});

/// Bytes of the state from which the iterations of a scheme go on; 0 for a scheme without them.
std::int64_t attend_state_bytes(Scheme scheme, Index rows, Index cols);

/// The parts into which threads can cut attend over a problem; with `gradients`, differentiate.
ItemParts attend_parts(Scheme scheme, bool gradients, Index rows, Index cols,
                       std::size_t element_size);

/// The most bytes that Output takes in attend, which may gather it in either order.
std::int64_t output_bytes(Scheme scheme, Index queries, Index keys, Index depth,
                          std::size_t element_size, int threads);

/// Bytes that attend takes in addition to scores, observers and kept exponentials.
std::int64_t attend_bytes(Scheme scheme, Index rows, Index cols, std::size_t element_size,
                          int threads);

}  // namespace attn
