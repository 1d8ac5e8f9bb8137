#pragma once

#include <memory>

#include "mechanisms/mechanism.hpp"

namespace attn::mechanisms {

/// One step of hard attention (Xu et al., arXiv:1502.03044; TN §2.5), which looks at a single
/// annotation a_i, drawn with probability α_i, to predict the word y:
///
///   α = softmax_i(vᵀ tanh(W_a a_i + W_h h)),  log p(y|z) = log softmax(L z + b)_y
///
/// log_p = Σ_i α_i log p(y|a_i) is the objective, a lower bound of log Σ_i α_i p(y|a_i), with all
/// annotations enumerated. Its gradients are the mean of the estimates from samples
/// (hard_samples.hpp). log_p_soft = log p(y|Σ_i α_i a_i) is the log-likelihood of soft attention.
/// Without annotations log_p and the entropy are 0, and log_p_soft is log p(y|0). A target outside
/// 0 … V − 1 throws Error(input). Memory O(L·A) and a panel of scores.
struct Hard {
  enum Input : std::size_t { a, state, w_a, w_h, v, readout, readout_bias };
  enum Tokens : std::size_t { target };
  enum Result : std::size_t { log_p, log_p_soft, log_p_each, entropy, weights };

  static const MechanismForm& form();

  template <class T>
  static std::unique_ptr<Mechanism<T>> make();
};

}  // namespace attn::mechanisms
