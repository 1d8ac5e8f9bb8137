#pragma once

#include <string>

#include "train/linear.hpp"
#include "train/pass_bytes.hpp"

namespace attn::train {

/// The weights of boxes with the scores a_i, over the scene's own boxes.
enum class Pooling {
  softmax,  ///< α = softmax_i(a_i): a mean, which does not tell how many boxes there are
  sum,  ///< α_i = σ(a_i + β), σ(x) = 1/(1 + exp(−x)): a sum, in which boxes do not compete
};

/// One vector for each question, pooled from the boxes y_i of its scene: scores
/// a_i = w·(W_y y_i ∘ W_q q), weights α_i by Pooling, p = Σ_i α_i y_i, z = p ∘ W q. q is the
/// question's vector, ∘ the product element by element. The only bias is the number β of gates.
class QuestionPooling {
 public:
  struct Options {
    Pooling pooling = Pooling::softmax;
    Index width = 0;                ///< of y, q and z
    Index inner = 0;                ///< rows of W_y and W_q
    double box_deviation = 0;       ///< of W_y and W_q at the start
    double score_deviation = 0;     ///< of w
    double question_deviation = 0;  ///< of W
  };

  /// Adds PREFIXwy, wq, w and wz, where the last is W; for a sum also beta, which starts at −2:
  /// most boxes are not what a question is about, and gates that are half open would add them all.
  QuestionPooling(Parameters& parameters, const std::string& prefix, const Options& options);

  template <class T>
  struct Kept {
    OwnedMatrix<T> boxes;      ///< W_y y_i, (boxes, inner)
    OwnedMatrix<T> questions;  ///< W_q q, (scenes, inner)
    OwnedMatrix<T> weights;    ///< α_i, (boxes, 1); 0 for padding
    OwnedMatrix<T> pooled;     ///< p, (scenes, width); 0 without boxes
    OwnedMatrix<T> gate;       ///< W q, (scenes, width)
  };

  /// z (scenes, width).
  template <class T>
  OwnedMatrix<T> forward(const Slot<T>& slot, const Sequences& boxes, MatrixView<const T> y,
                         MatrixView<const T> q, Kept<T>& kept) const;

  /// Writes the gradients of the layer's tensors; adds ∂L/∂y to dy and ∂L/∂q to dq.
  template <class T>
  void backward(const Slot<T>& slot, const Sequences& boxes, MatrixView<const T> y,
                MatrixView<const T> q, const Kept<T>& kept, MatrixView<const T> dz,
                MatrixView<T> dy, MatrixView<T> dq) const;

  /// The bytes for the boxes of the scenes, and their questions.
  template <class T>
  PassBytes bytes(const Sequences& boxes) const;

 private:
  template <class T>
  void write_weights(const Slot<T>& slot, const T* boxes, const T* question, Index n,
                     T* weights) const;

  Pooling pooling_;
  Linear of_boxes_;
  Linear of_questions_;
  MatrixPlace score_;  // w, (1, inner)
  Linear gate_;
  Index beta_ = 0;  // its place; only of a sum
};

}  // namespace attn::train
