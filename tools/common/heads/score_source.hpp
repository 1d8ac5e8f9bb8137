#pragma once

#include "common/options/score_options.hpp"
#include "io/input.hpp"

namespace attn::tools {

/// Whether `bundle` has the datasets from which scores of `source` are computed: q and k; x, wq and
/// wk; scores; cost; or t and z.
bool has_scores(const io::InputBundle& bundle, ScoreOptions::Source source);

}  // namespace attn::tools
