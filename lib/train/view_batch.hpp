#pragma once

#include <vector>

#include "train/slot.hpp"
#include "train/softmax_layer.hpp"

namespace attn::train {

/// The boxes that one detector found in some scenes, padded to the same number, in the type in
/// which they are stored.
struct Boxes {
  Sequences sequences;
  std::vector<Index> lengths;   ///< by scene; empty: all are whole
  std::vector<float> features;  ///< (scenes, length, width); finite, also in padding

  /// Sequences whose lengths point to the lengths in this object.
  Sequences view() const {
    return {sequences.count, sequences.length, lengths.empty() ? nullptr : lengths.data()};
  }
};

/// The number of kinds of questions.
inline constexpr Index question_kinds = 2;

/// The tokens of a question: its kind and its argument.
inline constexpr Index question_tokens = 2;

/// The part of a batch of scenes with questions that one slot computes.
struct ViewBatch {
  std::vector<Boxes> views;      ///< the first one is the primary view
  std::vector<Index> kinds;      ///< by scene, in [0, question_kinds)
  std::vector<Index> questions;  ///< (scenes, question_tokens)
  Targets targets;               ///< the answer of each scene, in order

  Index target_count() const { return targets.count(); }
};

}  // namespace attn::train
