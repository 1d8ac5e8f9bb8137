#pragma once

#include <optional>

#include "train/alignment_direction.hpp"
#include "train/mechanism_model.hpp"

namespace attn::train {

struct AlignmentModelOptions {
  MechanismOptions model;
  AlignmentTerms terms;
  /// γ. If γ > 0, the other direction is learned, too, and the loss contains γB, B = −Σ_ji A_ji
  /// A′_ij for the weights A (J, I) of this direction and A′ (I, J) of the other one.
  double agreement = 0;
};

/// Translates from source to target with alignment biases (TN §2.3); see AlignmentDirection. The
/// loss of a pair is −log p(t|s), and if γ > 0, −log p(t|s) − log p(s|t) + γB. p(s|t) is over the
/// source's tokens, without an end token; its first input vector is 0. Prediction::loss is
/// −log p(t|s) alone. If γ > 0, the model also reports the figure agreement: −B per target word.
class AlignmentModel : public MechanismModelOf<AlignmentModel> {
 public:
  explicit AlignmentModel(const AlignmentModelOptions& options);

  template <class T>
  Prediction run(const Pass<T>& pass) const;
  template <class T>
  OwnedMatrix<T> scores(const Pass<T>& pass) const;
  template <class T>
  PassBytes layer_bytes(const Sequences& source, const Sequences& input) const;

 private:
  template <class T>
  class Back;  // the pass in the other direction

  double agreement_;
  AlignmentDirection there_;
  std::optional<AlignmentDirection> back_;
};

}  // namespace attn::train
