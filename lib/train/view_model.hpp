#pragma once

#include <array>
#include <optional>
#include <vector>

#include "train/classifier.hpp"
#include "train/multi_view_attention.hpp"
#include "train/question_pooling.hpp"
#include "train/residual.hpp"
#include "train/view_batch.hpp"

namespace attn::train {

/// A model that answers questions about scenes that several detectors have seen.
struct ViewModelOptions {
  Index views = 3;
  Index width = 64;  ///< the features of a box
  Index heads = 1;
  /// How the primary view attends to the others. None: no attention; the boxes of all views form
  /// one view.
  std::optional<AttentionScheme> scheme = AttentionScheme{};
  double first_share = 0.5;  ///< u of hnas at the start, in (0, 1)
  Pooling pooling = Pooling::softmax;
  Index inner = 128;     ///< of the pooling and of the classifier
  Index vocabulary = 0;  ///< tokens of questions
  Index answers = 0;
  double smoothing = 0;
  /// The deviation of all matrices at the start; none: √(2/(rows + columns)) (Glorot and Bengio,
  /// 2010).
  std::optional<double> deviation;
};

/// The results of a pass for its answers: all, and by kind of question.
struct AnswerPrediction : Prediction {
  std::array<Prediction, question_kinds> by_kind;

  void add(const AnswerPrediction& more);
};

inline void put_sums(SlotMessage& message, const AnswerPrediction& sums) { message.put(sums); }
inline void take_sums(SlotMessage& message, AnswerPrediction& sums) { message.take(sums); }

/// y = LN(x + Σ_v π_v S_v) by MultiViewAttention, or y = LN(x) of the boxes of all views side by
/// side; QuestionPooling of y by the question's vector q, the sum of its tokens' vectors; a
/// Classifier. Dropout applies to attention weights, to Σ_v π_v S_v and to the pooled vector.
class ViewModel {
 public:
  using Batch = ViewBatch;
  using Sums = AnswerPrediction;

  /// All names begin with views/. Throws Error(usage) as MultiViewAttention does.
  explicit ViewModel(const ViewModelOptions& options);

  const ViewModelOptions& options() const { return options_; }
  const Parameters& parameters() const { return parameters_; }
  /// None without attention.
  const std::optional<MultiViewAttention>& attention() const { return attention_; }

  /// The gradient that a pass returns instead of writing it: ∂L/∂q, (scenes, width).
  template <class T>
  struct TokenGradients {
    OwnedMatrix<T> question;

    std::array<OwnedMatrix<T>*, 1> arrays() { return {&question}; }
  };

  /// The predictions of a slot.
  template <class T>
  AnswerPrediction predict(const Slot<T>& slot, const ViewBatch& batch) const;

  /// The same, and writes the gradients of `factor` times the smoothed loss to the slot, for all
  /// tensors except those by rows.
  template <class T>
  AnswerPrediction differentiate(const Slot<T>& slot, const ViewBatch& batch, double factor,
                                 TokenGradients<T>& token_gradients) const;

  /// The bytes for slots of `scenes` scenes with `boxes` boxes in every view. `predict` is also
  /// enough for column_sums, except for its result.
  template <class T>
  SlotBytes bytes(Index scenes, Index boxes) const;

  /// Adds a slot's gradients of the questions' vectors to the gradients of the tokens.
  template <class T>
  void add_token_gradients(const ViewBatch& batch, const TokenGradients<T>& token_gradients,
                           T* gradients) const;

  /// See MultiViewAttention::column_sums; empty without attention. Only `weights` and `plans` of
  /// the slot are used.
  template <class T>
  std::vector<std::vector<double>> column_sums(const Slot<T>& slot, const ViewBatch& batch) const;

 private:
  template <class T>
  struct Passed;

  template <class T>
  void forward(const Slot<T>& slot, const ViewBatch& batch, Passed<T>& passed) const;

  ViewModelOptions options_;
  Parameters parameters_;
  MatrixPlace table_;
  std::optional<MultiViewAttention> attention_;
  Residual around_attention_;
  QuestionPooling pooling_;
  Classifier classifier_;
};

}  // namespace attn::train
