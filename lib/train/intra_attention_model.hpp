#pragma once

#include "mechanisms/intra_attention.hpp"
#include "train/mechanism_layer.hpp"
#include "train/mechanism_model.hpp"
#include "train/softmax_layer.hpp"

namespace attn::train {

/// The next token by a long short-term memory with intra-attention (TN §2.1): the softmax of a
/// linear function of the state h_t. A target belongs to a row of the inputs, as in a Transformer.
/// No figures: weights of attention are not stored.
class IntraAttentionModel : public MechanismModelOf<IntraAttentionModel> {
 public:
  explicit IntraAttentionModel(const MechanismOptions& options);

  template <class T>
  Prediction run(const Pass<T>& pass) const;
  template <class T>
  PassBytes layer_bytes(const Sequences& source, const Sequences& input) const;

 private:
  MechanismLayer cell_;
  SoftmaxLayer softmax_;
};

}  // namespace attn::train
