#pragma once

#include "attnkit/attention.hpp"

namespace attn {

/// The operands from which the scores of a plan are made.
enum class ScoreSource {
  vectors,     ///< q and k
  projection,  ///< x and optionally y, wq and wk
  ready_made,  ///< scores
};

/// Throws Error(usage) if the operands belong to no source or to several.
ScoreSource source_of(const AttentionShapes& shapes);

/// Throws Error(usage) for options that are out of range or have no effect, and for operands that
/// the options do not use or that are missing.
void require_options(const AttentionShapes& shapes, const AttentionOptions& options);

}  // namespace attn
