#pragma once

#include "io/input.hpp"

namespace attn::tools {

/// Whether `bundle` has a dataset scores of its own, not one that -i names, which a tool wrote as a
/// result: it then contains scale, cap, bias and masks of that run.
bool has_written_scores(const io::InputBundle& bundle);

}  // namespace attn::tools
