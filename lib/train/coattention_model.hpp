#pragma once

#include "mechanisms/coattention.hpp"
#include "train/mechanism_layer.hpp"
#include "train/mechanism_model.hpp"

namespace attn::train {

struct CoattentionModelOptions {
  MechanismOptions model;
  mechanisms::Decoding decoding;
  Index pieces = 4;  ///< P of the decoder's maxima
};

/// Finds the answer to a question in a document, by dynamic coattention and a pointing decoder (TN
/// §2.6) over the words' vectors, which both share; L is the width. Sources are documents, inputs
/// questions; each question has two targets, the first and the last position of the answer. The
/// loss is their cross entropy, summed over the iterations; `correct` counts positions of the last
/// iteration. Figures, means over the questions: exact_match, whether both are right; f1, the
/// overlap 2|A∩B|/(|A| + |B|) of the found and the right positions; iterations.
class CoattentionModel : public MechanismModelOf<CoattentionModel> {
 public:
  explicit CoattentionModel(const CoattentionModelOptions& options);

  template <class T>
  Prediction run(const Pass<T>& pass) const;
  template <class T>
  PassBytes layer_bytes(const Sequences& source, const Sequences& input) const;

 private:
  MechanismLayer attention_;
};

}  // namespace attn::train
