#pragma once

#include <vector>

#include "attn_compute/attention_results.hpp"
#include "head/attend_head.hpp"
#include "head/head_reader.hpp"
#include "tensor/buffer.hpp"

namespace attn::tools {

/// The gradients of one head, one block for each gradient of `options`, in their order; those of
/// differentiate_join are still 0. `found` is the result of attend_head, before the gate.
template <class T>
std::vector<Buffer<T>> head_gradients(const ComputeOptions& options, const AttentionInput& input,
                                      const Head<T>& head, const HeadWork<T>& found, int threads);

/// Fills in the gradients of wo and bo, if they are requested. `out` is the head's output after the
/// gate; the first head of a sequence adds the sequence's part of bo.
template <class T>
void differentiate_join(const ComputeOptions& options, const AttentionInput& input,
                        const Head<T>& head, MatrixView<const T> out, int threads,
                        const std::vector<Buffer<T>>& parts);

/// Bytes that head_gradients allocates for one head, results not included.
std::int64_t head_gradient_bytes(const ComputeOptions& options, const AttentionInput& input,
                                 std::size_t element_size, int threads);

/// Floating-point operations of head_gradients for all heads, the forward pass not included.
double gradient_flops(const ComputeOptions& options, const AttentionInput& input);

}  // namespace attn::tools
