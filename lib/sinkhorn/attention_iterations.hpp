#pragma once

#include <cstdint>

#include "attnkit/stopping.hpp"
#include "parallel/kept_state.hpp"
#include "pass/attention.hpp"
#include "tensor/pooled_vector.hpp"

/// Sinkhorn's iterations of attention scores: every row of the weights sums to 1 and every column
/// to b = (queries with a key)/(keys with a query), except lines without an allowed pair. Each
/// iteration is the two half-steps of dnas with that b (DN 10, EA 10).
namespace attn {

/// Iterates until `stopping` ends the iterations, with column_error as the error. Writes the
/// potentials and shows the weights to `observers`. Row sums are exact to rounding: with a
/// tolerance the iterations normalise the rows, otherwise rows are normalised once more when the
/// weights are shown. The first iteration with b = 1 is dnas to the last bit. Keeps exponentials in
/// at most `kept_bytes`, which changes no bit. `keeper` may be null. `allowed` belongs to the
/// scores; `potentials` has spans of Lq and Lk. Throws the errors of the scores and observers.
template <class T>
SchemeSummary iterate_attention(const Scores<T>& scores, const AllowedCounts& allowed,
                                const Stopping& stopping, std::int64_t kept_bytes,
                                StateKeeper* keeper, Potentials& potentials,
                                const ObserverList<T>& observers, int threads);

/// Bytes of the state from which iterations go on.
std::int64_t iteration_state_bytes(Index rows, Index cols);

}  // namespace attn
