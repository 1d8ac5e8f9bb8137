#pragma once

#include <memory>

#include "mechanisms/intra_attention_form.hpp"
#include "mechanisms/mechanism.hpp"

namespace attn::mechanisms {

/// Intra-attention of the long short-term memory network (Cheng et al., arXiv:1601.06733; TN §2.1),
/// in which step t attends to all earlier states:
///
///   a_i = v·tanh(W_h h_i + W_x x_t + W_h̃ h̃_{t−1}), i < t;  s = softmax(a);
///   (h̃_t, c̃_t) = Σ_i s_i (h_i, c_i), zeros at the first step;
///   [i; f; o; ĉ] = [σ; σ; σ; tanh](W [h̃_t; x_t] + b),  c_t = f⊙c̃_t + i⊙ĉ,  h_t = o⊙tanh c_t
///
/// Fusion with a source of S states γ_j and memories α_j, as in the paper: p = softmax_j of
/// u·tanh(U_h γ_j + U_x x_t + U_γ̃ γ̃_{t−1}), (γ̃_t, α̃_t) = Σ_j p_j (γ_j, α_j). Shallow: γ̃_t is a
/// result beside h_t. Deep: also c_t = r⊙α̃_t + f⊙c̃_t + i⊙ĉ with r = σ(W_r [γ̃_t; x_t]).
///
/// Energies depend on h only, never on c. Time O(T²·(A + D)), memory O(T·(A + D)) unless the
/// weights are requested; the backward pass computes the weights again.
struct IntraAttention {
  enum Input : std::size_t {
    x,
    w_h,
    w_x,
    w_prev,
    v,
    w,
    b,
    source_h,
    source_c,
    u_h,
    u_x,
    u_prev,
    u,
    w_r
  };
  enum Result : std::size_t { h, c, weights, fused, source_weights };

  static const MechanismForm& form(Fusion fusion);

  template <class T>
  static std::unique_ptr<Mechanism<T>> make(Fusion fusion);
};

}  // namespace attn::mechanisms
