#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "gradient/gradient_sink.hpp"
#include "score/energy.hpp"

namespace attn {

/// The adjoints of the energies: each takes tiles of dE, the gradient with respect to the energies
/// as `fill` of the energy of the same name writes them (scale included, soft cap not), and writes
/// the gradients of the energy's inputs when finished. The memory is the caller's and must outlive
/// the sink; a gradient without data is not computed. The error is the error of a sum of Lq or Lk
/// products in T. Shapes are not checked again, as the energy rejects shapes that disagree.
/// `threads` compute the large products after the last tile, with bits that do not depend on
/// `threads`.

/// dot, scaled-dot: dq_i = scale Σ_j dE_ij k_j, dk_j = scale Σ_i dE_ij q_i; gaussian: dq_i = scale
/// Σ_j dE_ij (k_j − q_i), dk_j = scale Σ_i dE_ij (q_i − k_j), computed on vectors centred on their
/// common mean. grad_q is shaped like q and grad_k like k, contiguous.
template <class T>
std::unique_ptr<GradientSink<T>> make_product_gradient(EnergyKind kind, MatrixView<const T> q,
                                                       MatrixView<const T> k, double scale,
                                                       MatrixView<T> grad_q, MatrixView<T> grad_k);

/// With A_i = Σ_j dE_ij k_j and B_j = Σ_i dE_ij q_i: dq = scale·A Wᵀ, dk = scale·B W, dW =
/// scale·qᵀA.
template <class T>
std::unique_ptr<GradientSink<T>> make_bilinear_gradient(MatrixView<const T> q,
                                                        MatrixView<const T> k,
                                                        MatrixView<const T> w, double scale,
                                                        MatrixView<T> grad_q, MatrixView<T> grad_k,
                                                        MatrixView<T> grad_w, int threads);

/// The gradients of the mlp energy's inputs.
template <class T>
struct MlpGradients {
  MatrixView<T> q;
  MatrixView<T> k;
  MatrixView<T> w1;   ///< (A, dq + dk)
  std::span<T> w2;    ///< (A)
  std::span<T> bias;  ///< b1 (A)
};

/// With t_ija = tanh(a_ija), a = W1[q_i; k_j] + b1, and da_ija = scale·dE_ij w2_a (1 − t_ija²):
/// dw2_a = scale Σ dE_ij t_ija, dW1 = Σ da_ij [q_i; k_j]ᵀ, db1 = Σ da_ij, dq_i = W1qᵀ Σ_j da_ij,
/// dk_j = W1kᵀ Σ_i da_ij. A pair costs two exponentials more than the energy itself.
template <class T>
std::unique_ptr<GradientSink<T>> make_mlp_gradient(MatrixView<const T> q, MatrixView<const T> k,
                                                   const MlpWeights<T>& weights, double scale,
                                                   const MlpGradients<T>& gradients, int threads);

/// Bytes that these sinks allocate with `lanes` lanes; q and k have `q_depth` and `k_depth`
/// columns, `hidden` is A.
std::int64_t product_gradient_bytes(EnergyKind kind, Index rows, Index cols, Index depth,
                                    std::size_t element_size, Index lanes);
std::int64_t bilinear_gradient_bytes(Index rows, Index cols, Index q_depth, Index k_depth,
                                     std::size_t element_size, Index lanes);
std::int64_t mlp_gradient_bytes(Index rows, Index cols, Index hidden, std::size_t element_size,
                                Index lanes);

}  // namespace attn
