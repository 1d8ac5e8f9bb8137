#pragma once

#include <cstdint>

#include "mechanisms/lstm.hpp"
#include "mechanisms/mechanism.hpp"
#include "mechanisms/rows.hpp"
#include "mechanisms/sequence_attention.hpp"

namespace attn::mechanisms {

/// The encoder of Coattention, for one document and question.
template <class T>
class CoattentionEncoder {
 public:
  /// The attentions of all encoders of a mechanism.
  static constexpr std::size_t question_to_document = 0;
  static constexpr std::size_t document_to_question = 1;
  static constexpr std::size_t attentions = 2;

  /// Refers to the inputs of Coattention and to the attentions.
  CoattentionEncoder(const Tensors<const T>& inputs, const SequenceAttention<T>& attention,
                     int threads);

  /// `weights_q` (N+1, M+1) and `weights_d` (M+1, N+1) are written if they have data. Throws
  /// Error(numerical) for a number beyond the range of T.
  void forward(const TensorView<T>& weights_q, const TensorView<T>& weights_d);

  /// u and the rows of C^D, both (M, 2L).
  MatrixView<const T> encoding() const { return encoding_.read(); }
  MatrixView<const T> context() const { return context_.read().row_range(0, document_.rows); }

  /// After forward, once: from the gradients with respect to u and C^D (without data: 0), adds to
  /// the gradients that have data.
  void backward(MatrixView<const T> dencoding, MatrixView<const T> dcontext,
                const Tensors<T>& gradients);

  static std::int64_t bytes(const SequenceAttention<T>& attention, const Sizes& sizes,
                            bool gradients);

 private:
  Lstm<T> reader() const;
  Lstm<T> rereader(bool backwards) const;
  OwnedMatrix<T> reread_backward(MatrixView<const T> dencoding, const Tensors<T>& gradients);
  void question_backward(OwnedMatrix<T>& dq, const Tensors<T>& gradients);
  void document_backward(const OwnedMatrix<T>& dd, const Tensors<T>& gradients);

  AttentionInputs<T> to_document() const;
  AttentionInputs<T> to_question() const;

  const Tensors<const T>& inputs_;
  const SequenceAttention<T>& attention_;
  int threads_;
  MatrixView<const T> document_, question_;
  using Steps = typename Lstm<T>::Kept;
  Steps document_steps_, question_steps_;
  OwnedMatrix<T> d_;                // D, (M+1, L)
  OwnedMatrix<T> question_states_;  // Q′, (N+1, L)
  OwnedMatrix<T> q_;                // Q, (N+1, L)
  OwnedMatrix<T> summaries_;        // [Q, C^Q], (N+1, 2L)
  OwnedMatrix<T> context_;          // C^D, (M+1, 2L)
  OwnedMatrix<T> joined_;           // [D, C^D] without the sentinel's row, (M, 3L)
  Steps forward_steps_, backward_steps_;
  OwnedMatrix<T> encoding_;  // u
};

}  // namespace attn::mechanisms
