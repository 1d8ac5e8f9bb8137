#pragma once

#include <vector>

#include "attn_compute/attention_results.hpp"
#include "common/head_reader.hpp"
#include "scheme/scheme.hpp"
#include "tensor/buffer.hpp"

namespace attn::tools {

/// The gradients of one head, one block for each gradient of `options`, in their order. `out` is
/// the head's output (Lq, dv) for all queries.
template <class T>
std::vector<Buffer<T>> head_gradients(const ComputeOptions& options, const AttentionInput& input,
                                      const Head<T>& head, const SchemeOptions& scheme,
                                      const Attention& attention, MatrixView<const T> out,
                                      int threads);

/// Bytes that head_gradients allocates for one head, results not included.
std::int64_t head_gradient_bytes(const ComputeOptions& options, const AttentionInput& input,
                                 std::size_t element_size, int threads);

/// Floating-point operations of head_gradients for all heads, the forward pass not included.
double gradient_flops(const ComputeOptions& options, const AttentionInput& input);

}  // namespace attn::tools
