#pragma once

#include "mechanisms/hard.hpp"
#include "train/mechanism_layer.hpp"
#include "train/mechanism_model.hpp"

namespace attn::train {

/// How the gradient of hard attention is found.
enum class HardGradient {
  enumeration,       ///< exactly, from all choices
  sampled,           ///< REINFORCE: an estimate from one sample for each word (hard_samples.hpp)
  sampled_baseline,  ///< the same, with a running mean of log p as its baseline
};

struct HardModelOptions {
  MechanismOptions model;
  HardGradient gradient = HardGradient::enumeration;
};

/// From source to target by hard attention (TN §2.5): for each word of the target, the state h of a
/// network over the words before chooses one encoding e_i of the source, by a BiLSTM or BiGRU, and
/// the word is predicted from the annotation [e_i; h] alone. The loss of a word is −Σ_i α_i log
/// p(y|[e_i; h]), with all choices enumerated. Outputs and Prediction::correct, which only a pass
/// without gradients finds, use Σ_i α_i p(y|[e_i; h]). Figure: entropy, of α, in nats, the mean
/// over the words.
///
/// With samples, Prediction::smoothed of a pass with gradients is −Σ log p(y|[e_ŝ; h]) of the
/// samples ŝ, whose mean is the loss. The samples are a function of Dropout's seed and pass, and of
/// the word's number in the slot. The baseline b is the tensor hard/baseline, which starts at 0,
/// has the gradient 0 and changes by next_baseline only.
class HardModel : public MechanismModelOf<HardModel> {
 public:
  explicit HardModel(const HardModelOptions& options);

  std::optional<Index> baseline() const override { return baseline_; }

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

  template <class T>
  double add_samples(const Pass<T>& pass, const Choices<T>& choices, const OwnedMatrix<T>& weights,
                     const OwnedMatrix<T>& log_p, OwnedMatrix<T>& dlog_p,
                     OwnedMatrix<T>& dweights) const;

  RecurrentLayer encoder_;
  RecurrentLayer decoder_;
  MechanismLayer attention_;
  bool samples_;
  std::optional<Index> baseline_;
};

}  // namespace attn::train
