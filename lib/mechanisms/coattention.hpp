#pragma once

#include <memory>

#include "mechanisms/mechanism.hpp"
#include "mechanisms/pointing_decoder.hpp"

namespace attn::mechanisms {

/// Dynamic coattention (Xiong et al., arXiv:1611.01604; TN §2.6) of a document of M positions and a
/// question of N. One LSTM reads both; its states, each with a trained sentinel as last row, are D′
/// and Q′. Rows are positions, so all matrices are transposes of TN's:
///
///   D = D′,  Q = tanh(Q′ Wᵀ + b),  C^Q = softmax(Q Dᵀ) D,  C^D = softmax(D Qᵀ) [Q, C^Q],
///   u = BiLSTM([D, C^D]), without the sentinel's row
///
/// A PointingDecoder finds the answer in u, if its weights are present. The loss is the sum of −log
/// p of the target's start and end over all iterations. Results by iteration have a row for each
/// allowed iteration; rows of iterations that were not made are 0.
///
/// An empty side has only its sentinel. An empty document has no answer: iterations, span and loss
/// are 0, and the target is not read. Otherwise a target outside the document throws Error(input).
/// Memory O((M + N)·L + I·M) and a panel of scores, unless the weights are requested.
struct Coattention {
  enum Input : std::size_t {
    document,
    question,
    w,
    b,
    sentinel_d,
    sentinel_q,
    w_question,
    b_question,
    w_forward,
    b_forward,
    w_backward,
    b_backward,
    w_decoder,
    b_decoder,
    start_w,             ///< the first of the seven of a HighwayMaxout
    end_w = start_w + 7  ///< likewise
  };
  enum Tokens : std::size_t { target };
  enum Result : std::size_t {
    encoding,
    context,
    start_log_p,
    end_log_p,
    span,
    iterations,
    loss,
    weights_q,
    weights_d
  };

  static const MechanismForm& form();

  template <class T>
  static std::unique_ptr<Mechanism<T>> make(const Decoding& decoding);
};

}  // namespace attn::mechanisms
