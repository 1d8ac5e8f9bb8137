#pragma once

#include <memory>

#include "mechanisms/mechanism.hpp"

namespace attn::mechanisms {

/// Structured self-attention (Lin et al., arXiv:1703.03130; TN §2.2): R hops over a sequence.
///
///   A = softmax over positions of W₂ tanh(W₁ xᵀ),  out = A x,  penalty = ‖AAᵀ − I‖²
///
/// Also computes the means of the diagonal of AAᵀ and of the rest, which measure how far hops are
/// one-hot and how far they overlap. The penalty is 0 exactly if the rows of A are one-hot at
/// different positions. A sequence without positions has no weights, out = 0 and the penalty R.
/// Memory O(T·(A + R)).
struct Structured {
  enum Input : std::size_t { x, w1, w2 };
  enum Result : std::size_t { out, weights, overlap, penalty, diagonal, off_diagonal };

  static const MechanismForm& form();

  template <class T>
  static std::unique_ptr<Mechanism<T>> make();
};

}  // namespace attn::mechanisms
