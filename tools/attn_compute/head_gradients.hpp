#pragma once

#include <vector>

#include "attn_compute/attention_results.hpp"
#include "common/head_reader.hpp"
#include "scheme/scheme.hpp"
#include "tensor/buffer.hpp"

namespace attn::tools {

/// The part of one head in each gradient of `options`, in their order, a block each. `out` is its
/// output (Lq, dv), all queries.
template <class T>
std::vector<Buffer<T>> head_gradients(const ComputeOptions& options, const AttentionInput& input,
                                      const Head<T>& head, const SchemeOptions& scheme,
                                      const Attention& attention, MatrixView<const T> out,
                                      int threads);

/// Bytes that it takes while it works on one head, results not counted.
std::int64_t head_gradient_bytes(const ComputeOptions& options, const AttentionInput& input,
                                 std::size_t element_size, int threads);

/// What it computes over all heads, forward not counted.
double gradient_flops(const ComputeOptions& options, const AttentionInput& input);

}  // namespace attn::tools
