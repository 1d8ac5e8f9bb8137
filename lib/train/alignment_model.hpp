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

/// From source to target with biases of alignment (TN §2.3): AlignmentDirection. The loss of a pair
/// is −log p(t|s), with agreement −log p(t|s) − log p(s|t) + γB. p(s|t) covers the source's tokens,
/// without an end; its first input has the vector 0. Prediction::loss is the loss of the target
/// alone. Figure, with agreement: agreement, −B per word of the target.
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
