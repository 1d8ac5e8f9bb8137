#pragma once

#include <memory>

#include "mechanisms/mechanism.hpp"

namespace attn::mechanisms {

/// Attention with structural alignment biases (Cohn et al., arXiv:1601.01085; TN §2.3) of J target
/// words to I source words, with positions counted from 1:
///
///   f_ji = v·tanh(W_ae e_i + W_ah g_{j−1} + W_ap ψ_ji + W_am ξ_ji),  α_j = softmax over i of f_j,
///   ψ_ji = [log(1+j); log(1+i); log(1+I)],  ξ_ji = (α_{j−1,i−K}, …, α_{j−1,i+K}),
///   context = α e,  fertility_i = Σ_j α_ji
///
/// ξ is 0 beyond the ends, and for j = 1. Row j of `target` is g_{j−1}, the state before word j. No
/// term contains J, so rows do not depend on later rows. Without w_position or w_previous, its term
/// is absent. An empty source has no weights, and contexts of 0; fertilities without target words
/// are 0.
///
/// Time O(J·I·(A + S)), with w_previous O(J·I·(A·K + S)). Memory O((I + J)·A) and a panel of α,
/// unless the weights are requested. The backward pass computes the weights again. With w_previous
/// it keeps them, (J, I), since it goes from the last row to the first.
struct Alignment {
  enum Input : std::size_t { source, target, w_source, w_target, v, w_position, w_previous };
  enum Result : std::size_t { context, weights, fertility };

  static const MechanismForm& form();

  template <class T>
  static std::unique_ptr<Mechanism<T>> make();
};

}  // namespace attn::mechanisms
