#pragma once

#include <array>
#include <vector>

#include "attn_compute/head_gradients.hpp"

namespace attn::tools {

/// Whether gradients pass a norm over all heads of the queries (or keys).
bool through_all_heads(const std::vector<GradientKind>& kinds, const AttentionInput& input,
                       bool of_queries);

/// Completes the gradients that pass norms over all heads. They need the gradients of the norms'
/// results in all heads of a sequence, which are kept until its last head.
template <class T>
class NormsOverHeads {
 public:
  /// The arguments must outlive the object.
  NormsOverHeads(const HeadGradients<T>& gradients, const ComputeOptions& options,
                 const AttentionInput& input, int threads);

  /// Takes what HeadGradients::of found for a head; call for all heads in order. Adds to the
  /// `parts` of a sequence's last head. The bits do not depend on threads.
  void add(Index problem, const std::vector<Buffer<T>>& normed, std::vector<Buffer<T>>& parts);

  /// The time that it has computed so far.
  double seconds() const { return seconds_; }

 private:
  struct Side {
    AttentionSources alone;  // the queries or keys, without scores
    const Vectors* from = nullptr;
    Buffer<T> kept = {};  // (heads of the projection, rows, d)
  };

  void keep(Side& side, Index problem, const Buffer<T>& normed) const;
  void complete(bool of_queries, Index problem, const HeadGradientTargets<T>& targets);

  const HeadGradients<T>& gradients_;
  const AttentionInput& input_;
  int threads_;
  std::array<Side, 2> sides_;  // queries, keys
  double seconds_ = 0;
  TileRange own_;  // around the own parts of the sequence's heads
};

/// Bytes that it keeps, and those that `add` allocates besides.
std::int64_t norms_over_heads_kept_bytes(const ComputeOptions& options, const AttentionInput& input,
                                         std::size_t element_size);
std::int64_t norms_over_heads_bytes(const ComputeOptions& options, const AttentionInput& input,
                                    std::size_t element_size, int threads);

/// Floating-point operations of it for all heads.
double norms_over_heads_flops(const ComputeOptions& options, const AttentionInput& input);

}  // namespace attn::tools
