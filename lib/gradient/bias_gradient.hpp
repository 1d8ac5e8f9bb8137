#pragma once

#include <memory>

#include "gradient/gradient_sink.hpp"
#include "score/relative_bias.hpp"

namespace attn {

/// The adjoints of terms that are added to the scores: each takes tiles of dS, the gradient with
/// respect to the scores, and writes its gradient when finished. After several complete passes, it
/// has written the sum over all.

/// For a bias that broadcasts: `gradient` (Lq or 1, Lk or 1) is the sum of dS over the axes of
/// length 1, kept in float64 until it is complete. Its memory is the caller's, with any row stride.
template <class T>
std::unique_ptr<GradientSink<T>> make_bias_gradient(Index rows, Index cols, MatrixView<T> gradient);

/// For one head's column of T5's table: gradient_b = Σ dS_ij over the pairs in bucket b, (buckets)
/// with any stride. `offset` and `rule` as for t5_relative_bias.
template <class T>
std::unique_ptr<GradientSink<T>> make_t5_gradient(Index rows, Index cols, Index offset,
                                                  const BucketRule& rule, MatrixView<T> gradient);

/// Bytes that these sinks allocate with `lanes` lanes.
std::int64_t bias_gradient_bytes(Index rows, Index cols, Index lanes);
std::int64_t t5_gradient_bytes(Index rows, Index cols, Index lanes);

}  // namespace attn
