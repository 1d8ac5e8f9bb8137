#pragma once

#include "mechanisms/hard.hpp"
#include "train/mechanism_layer.hpp"
#include "train/mechanism_model.hpp"

namespace attn::train {

/// From source to target by hard attention (TN §2.5): for each word of the target, the state h of a
/// network over the words before chooses one encoding e_i of the source, by a BiLSTM or BiGRU, and
/// the word is predicted from the annotation [e_i; h] alone. The loss of a word is −Σ_i α_i log
/// p(y|[e_i; h]), with all choices enumerated. Outputs and Prediction::correct, which only a pass
/// without gradients finds, use Σ_i α_i p(y|[e_i; h]). Figure: entropy, of α, in nats, the mean
/// over the words.
class HardModel : public MechanismModelOf<HardModel> {
 public:
  explicit HardModel(const MechanismOptions& options);

  template <class T>
  Prediction run(const Pass<T>& pass) const;
  template <class T>
  OwnedMatrix<T> scores(const Pass<T>& pass) const;
  template <class T>
  PassBytes layer_bytes(const Sequences& source, const Sequences& input) const;

 private:
  template <class T>
  struct Passed;
  template <class T>
  class Choices;

  template <class T>
  void encode(const Pass<T>& pass, Passed<T>& passed) const;
  template <class T>
  OwnedMatrix<T> mixtures(const Slot<T>& slot, const Choices<T>& choices,
                          const OwnedMatrix<T>& weights) const;

  RecurrentLayer encoder_;
  RecurrentLayer decoder_;
  MechanismLayer attention_;
};

}  // namespace attn::train
