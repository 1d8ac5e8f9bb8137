#pragma once

#include <optional>
#include <string>
#include <vector>

#include "attn_compute/attention_results.hpp"
#include "head/attend_head.hpp"
#include "head/gradient_operands.hpp"
#include "head/head_reader.hpp"
#include "tensor/buffer.hpp"

namespace attn::tools {

/// Computes the gradients of heads that `options` requests.
template <class T>
class HeadGradients {
 public:
  /// The arguments must outlive the object.
  HeadGradients(const ComputeOptions& options, const AttentionInput& input);

  /// The gradients of one head, one block for each gradient of the options, in their order; the
  /// gradients of add_join are still 0. `found` is the result of attend_head, before the gate.
  /// Gradients over all heads (GradientKind::of_all_heads) are empty. NormsOverHeads completes them
  /// from `normed`, the gradients of the results of norms over all heads: of queries and of keys,
  /// empty if not needed.
  std::vector<Buffer<T>> of(const Head<T>& head, const HeadWork<T>& found,
                            std::vector<Buffer<T>>& normed, int threads) const;

  /// Zeros for the gradients of all heads, in what `of` has returned.
  void make_room_for_all_heads(std::vector<Buffer<T>>& parts) const;

  /// Where they go, those that are not empty.
  HeadGradientTargets<T> targets(const TileRange& own, const std::vector<Buffer<T>>& parts) const;

  /// Fills in the gradients of wo and bo, if they are requested. `out` is the head's output after
  /// the gate; the first head of a sequence adds the sequence's part of bo.
  void add_join(const Head<T>& head, MatrixView<const T> out, int threads,
                const std::vector<Buffer<T>>& parts) const;

 private:
  MatrixView<T> part(const std::string& name, const Operand& operand,
                     const std::vector<Buffer<T>>& parts) const;

  const ComputeOptions& options_;
  const AttentionInput& input_;
  std::vector<std::optional<GradientOperand<T>>> operands_;  // by gradient; absent: of joining
};

/// Bytes that HeadGradients::of allocates for one head, results not included.
std::int64_t head_gradient_bytes(const ComputeOptions& options, const AttentionInput& input,
                                 std::size_t element_size, int threads);

/// Floating-point operations of HeadGradients for all heads, the forward pass not included.
double gradient_flops(const ComputeOptions& options, const AttentionInput& input);

}  // namespace attn::tools
