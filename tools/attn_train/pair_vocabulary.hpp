#pragma once

#include "attn_train/run_data.hpp"
#include "attn_train/special_tokens.hpp"
#include "io/output.hpp"

namespace attn::tools {

/// The symbols of both columns of pairs; with data.joint they are the same.
struct PairVocabulary {
  train::Vocabulary source;
  train::Vocabulary target;

  /// Adds the datasets source_vocabulary and target_vocabulary.
  void write(io::OutputBundle& bundle) const;
};

/// Learns the vocabularies from the training data: <unk> comes first, in the second column followed
/// by <s> and </s>.
PairVocabulary learn_pair_vocabulary(const Recipe& recipe, const SplitTexts& texts);

}  // namespace attn::tools
