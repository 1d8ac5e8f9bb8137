#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "score/head_transform.hpp"
#include "tensor/view.hpp"

namespace attn {

/// Where the gradients of a projection's operands, and of a norm after it, go. A gradient whose
/// view has no data is not computed.
template <class T>
struct ProjectionTargets {
  MatrixView<T> input;           ///< dx (L, D), accumulated: the gradient is added
  MatrixView<T> weights;         ///< dw (D, d), contiguous
  MatrixView<T> bias;            ///< db (1, d)
  MatrixView<T> norm = {};       ///< of the norm's weights (1, d)
  MatrixView<T> norm_bias = {};  ///< (1, d)

  bool of_projection() const {
    return input.data != nullptr || weights.data != nullptr || bias.data != nullptr;
  }
  bool any() const { return of_projection() || norm.data != nullptr || norm_bias.data != nullptr; }
};

/// Backward through `project`, out = x w + 1·biasᵀ, for dout (L, d):
///
///   dx += dout wᵀ,   dw = xᵀ dout,   db_c = Σ_i dout_ic
///
/// Error: d roundings of Σ|dout||w| for dx, L roundings of Σ|x||dout| for dw; db is summed in
/// float64. Runs on up to `threads` threads; the bits do not depend on their number.
template <class T>
void differentiate_projection(MatrixView<const T> x, MatrixView<const T> w,
                              MatrixView<const T> grad_out, const ProjectionTargets<T>& targets,
                              int threads);

/// What the rows of a head are made of: out = input · weights + bias, and then a transform.
template <class T>
struct ProjectedFrom {
  MatrixView<const T> input;    ///< (L, D)
  MatrixView<const T> weights;  ///< (D, d)
  MatrixView<const T> bias;     ///< (1, d), or without data
  HeadRows rows;
  /// Weights and biases of all heads, if the transform has a norm over these; else empty.
  std::vector<MatrixView<const T>> all_weights, all_bias;

  bool over_heads() const { return rows.transform != nullptr && rows.transform->over_heads(); }

  static std::span<const T> numbers_of(const MatrixView<const T>& view) {
    return {view.data, static_cast<std::size_t>(view.cols)};
  }
};

/// Backward through projection and transform, for dout (L, d), which is overwritten; not for a norm
/// over all heads. Error: that of differentiate_projection, of the transform, and of the
/// projection, which is computed again.
template <class T>
void differentiate_projected(const ProjectedFrom<T>& from, MatrixView<T> grad_out,
                             const ProjectionTargets<T>& targets, int threads);

/// Backward through a norm over all H heads and their projections. `grads` has the gradient of the
/// norm of each head (L, d), before the rotation. Targets: dw (H·D, d), db (1, H·d), and those of
/// the norm (1, H·d). Takes four products for each head: the projection twice, for the means of the
/// norm and for the gradient, and the two of differentiate_projection. Error as above. The bits do
/// not depend on `threads`. Throws Stopped.
template <class T>
void differentiate_over_heads(const ProjectedFrom<T>& from,
                              const std::vector<MatrixView<const T>>& grads,
                              const ProjectionTargets<T>& targets, int threads);

/// Bytes that either of them allocates for `rows` rows of `cols` channels.
std::int64_t differentiate_projected_bytes(Index rows, Index cols, std::size_t element_size);

}  // namespace attn
