#pragma once

#include "mechanisms/over_attention.hpp"
#include "train/mechanism_layer.hpp"
#include "train/mechanism_model.hpp"

namespace attn::train {

/// Finds the word of a document that answers a question, by attention over attention (TN §2.8): a
/// BiLSTM or BiGRU over the document and another one over the question, which share the vectors of
/// words, and P(w) = Σ s_i over the positions i of the word w. Sources are documents, inputs
/// questions; the target of each question is a word of its document, and the loss is −log P of this
/// word. Figure: largest, the mean of the largest s_i over the questions.
class OverAttentionModel : public MechanismModelOf<OverAttentionModel> {
 public:
  explicit OverAttentionModel(const MechanismOptions& options);

  template <class T>
  Prediction run(const Pass<T>& pass) const;
  template <class T>
  PassBytes layer_bytes(const Sequences& source, const Sequences& input) const;

 private:
  RecurrentLayer document_;
  RecurrentLayer question_;
  MechanismLayer attention_;
};

}  // namespace attn::train
