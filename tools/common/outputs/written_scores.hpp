#pragma once

#include "io/input.hpp"

namespace attn::tools {

/// Whether `bundle` itself, not -i, has a dataset scores that a tool wrote as a result; the dataset
/// then includes scale, cap, bias and masks of that run.
bool has_written_scores(const io::InputBundle& bundle);

}  // namespace attn::tools
