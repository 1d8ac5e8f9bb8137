#pragma once

#include "mechanisms/decomposable.hpp"
#include "train/mechanism_layer.hpp"
#include "train/mechanism_model.hpp"

namespace attn::train {

/// The class of a pair of sequences by decomposable attention (TN §2.7) of the tokens' vectors: F,
/// G and H have `inner` hidden numbers, F and G as many results. Sources are one side, inputs the
/// other; the target of each pair is a class. No figures.
class DecomposableModel : public MechanismModelOf<DecomposableModel> {
 public:
  explicit DecomposableModel(const MechanismOptions& options);

  template <class T>
  Prediction run(const Pass<T>& pass) const;
  template <class T>
  PassBytes layer_bytes(const Sequences& source, const Sequences& input) const;

 private:
  MechanismLayer attention_;
};

}  // namespace attn::train
