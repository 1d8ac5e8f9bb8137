#pragma once

#include <memory>

#include "mechanisms/mechanism.hpp"

namespace attn::mechanisms {

/// Attention over attention (Cui et al., arXiv:1607.04423; TN §2.8) of a document of M positions
/// and a question of N:
///
///   E = d qᵀ,  α = softmax over the document,  β = softmax over the question,
///   β̄_j = 1/M Σ_i β_ij,  s_i = Σ_j α_ij β̄_j,  p_i = Σ_{i′: word_i′ = word_i} s_i′
///
/// Σ_i s_i = 1, and Σ p over the different words of the document = 1; both are 0 if a side is
/// empty. p is the probability of the word at each position, and needs `words`. Memory O(M + N) and
/// a panel of E, unless the weights are requested.
struct OverAttention {
  enum Input : std::size_t { document, question };
  enum Tokens : std::size_t { words };
  enum Result : std::size_t { s, p, beta, weights_d, weights_q };

  static const MechanismForm& form();

  template <class T>
  static std::unique_ptr<Mechanism<T>> make();
};

}  // namespace attn::mechanisms
