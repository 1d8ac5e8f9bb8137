#pragma once

#include <memory>

#include "mechanisms/mechanism.hpp"

namespace attn::mechanisms {

/// Decomposable attention (Parikh et al., arXiv:1606.01933; TN §2.7): attend, compare, aggregate.
///
///   e_ij = F(a_i)·F(b_j),  β_i = Σ_j softmax_j(e_ij) b_j,  α_j = Σ_i softmax_i(e_ij) a_i,
///   v₁ = Σ_i G([a_i; β_i]),  v₂ = Σ_j G([b_j; α_j]),  scores = H([v₁; v₂])
///
/// F, G and H have two layers, x ↦ W₂ ReLU(W₁ x + b₁) + b₂; F and G end in ReLU, too. Biases are
/// optional. A side without positions gives the other side alignments of 0. Memory O((M +
/// N)·width), unless the weights are requested.
struct Decomposable {
  enum Input : std::size_t {
    a,
    b,
    f1,
    f1_bias,
    f2,
    f2_bias,
    g1,
    g1_bias,
    g2,
    g2_bias,
    h1,
    h1_bias,
    h2,
    h2_bias
  };
  enum Result : std::size_t { scores, beta, alpha, weights_a, weights_b };

  static const MechanismForm& form();

  template <class T>
  static std::unique_ptr<Mechanism<T>> make();
};

}  // namespace attn::mechanisms
