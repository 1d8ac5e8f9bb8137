#pragma once

#include "attnkit/attention.hpp"

namespace attn {

/// What the scores of a plan are made of.
enum class ScoreSource {
  vectors,     ///< q and k
  projection,  ///< x and perhaps y, wq and wk
  ready_made,  ///< scores
};

/// Throws Error(usage) where the operands are of no source or of several.
ScoreSource source_of(const AttentionShapes& shapes);

/// Throws Error(usage) for options out of range, options that have no effect, and operands that the
/// options do not use or lack.
void require_options(const AttentionShapes& shapes, const AttentionOptions& options);

}  // namespace attn
