#pragma once

#include <optional>

#include "attnkit/scheme.hpp"
#include "attnkit/stopping.hpp"
#include "pass/potentials.hpp"
#include "sinkhorn/attention_iterations.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// Sinkhorn's error is that of the column sums, Σ_j |c_j − b_j| / Σ_j b_j: row sums are exact to
/// rounding.
struct SchemeOptions : Stopping {
  Scheme scheme = Scheme::unas;

  /// u of hnas, in [0, 1].
  double hybrid = 0.5;

  /// For sinkhorn: memory in which attend may keep exponentials of scores from one iteration to the
  /// next (at most all Lq × Lk of them in T), in addition to attend_bytes. Exponentials without
  /// room are computed again in every iteration, which takes longer and yields the same bits.
  std::int64_t kept_bytes = 0;
};

/// Summary of sinkhorn's iterations; the other schemes are done after one.
using SchemeSummary = IterationSummary;

struct Attention {
  AllowedCounts allowed;
  Potentials potentials;
  SchemeSummary summary;
};

/// Finds the potentials of `scores` and shows every weight to `observers`; if these are empty,
/// computes only what the potentials need. Memory O(Lq + Lk) and a few panels. Sinkhorn's marginals
/// are a = 1 and b = (queries with a key)/(keys with a query), 0 for lines without; its first
/// iteration with b = 1 is dnas to the last bit. Under unas and hnas every row sums to 1. Throws
/// whatever the scores and observers throw.
template <class T>
Attention attend(const Scores<T>& scores, const SchemeOptions& options,
                 const ObserverList<T>& observers, int threads);

/// Shows the weights of the chosen queries as attend(scores, options, observers, …) shows them, to
/// the last bit, given the `potentials` that it found: normalised over all queries and keys, in
/// O(chosen · Lk) by whole panels. unas needs no potentials, dnas and hnas only `col`.
template <class T>
void show_rows(const Scores<T>& scores, const SchemeOptions& options, Potentials& potentials,
               const RowSelection& rows, const ObserverList<T>& observers, int threads);

/// The largest SchemeOptions::kept_bytes that attend can use.
std::int64_t useful_attend_bytes(const SchemeOptions& options, Index rows, Index cols,
                                 std::size_t element_size);

/// The most bytes that Output takes in attend, which may gather it in either order.
std::int64_t output_bytes(Scheme scheme, Index queries, Index keys, Index depth,
                          std::size_t element_size);

/// Bytes that attend takes in addition to scores, observers and kept exponentials.
std::int64_t attend_bytes(Scheme scheme, Index rows, Index cols, std::size_t element_size,
                          int threads);

}  // namespace attn
