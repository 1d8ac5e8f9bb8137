#pragma once

#include <string>

#include "train/rows.hpp"

namespace attn::train {

/// The weights by which the words of targets attend to the words of sources, for the pairs of a
/// slot. Row j of a pair belongs to the word that is predicted at position j of its input: the
/// words y_1 … y_n of the target, then </s>.
template <class T>
struct SourceWeights {
  std::string name;  ///< of the attention: "decoder/layer0/cross", "alignment"
  Index heads = 0;   ///< 0: the attention has no heads
  /// (pairs, heads·J·I) for inputs padded to J positions and sources padded to I; what belongs to
  /// padding is without meaning.
  OwnedMatrix<T> weights;
};

}  // namespace attn::train
