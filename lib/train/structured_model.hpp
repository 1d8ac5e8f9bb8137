#pragma once

#include "mechanisms/structured.hpp"
#include "train/mechanism_layer.hpp"
#include "train/mechanism_model.hpp"
#include "train/softmax_layer.hpp"

namespace attn::train {

struct StructuredModelOptions {
  MechanismOptions model;
  Index hops = 4;
  double penalty = 0;  ///< the weight of ‖AAᵀ − I‖² in the loss of a sequence
};

/// The class of a sequence by structured self-attention (TN §2.2): a BiLSTM or BiGRU of the tokens'
/// vectors, R hops over its states, and the softmax of a linear function of all hops together.
/// Targets are classes, one for each input. Figures: the means of diagonal and off_diagonal of AAᵀ
/// over the sequences.
class StructuredModel : public MechanismModelOf<StructuredModel> {
 public:
  explicit StructuredModel(const StructuredModelOptions& options);

  template <class T>
  Prediction run(const Pass<T>& pass) const;
  template <class T>
  PassBytes layer_bytes(const Sequences& source, const Sequences& input) const;

 private:
  Index hops_;
  double penalty_;
  RecurrentLayer encoder_;
  MechanismLayer attention_;
  SoftmaxLayer softmax_;
};

}  // namespace attn::train
