#pragma once

#include <string>
#include <vector>

#include "cli/report.hpp"
#include "io/input.hpp"
#include "tensor/shape.hpp"

namespace attn::tools {

/// The names of keys, a list for each `heads_per_list` consecutive heads of the input, one list
/// after the other; empty if there are none.
struct KeyNames {
  std::vector<std::string> names;
  Index heads_per_list = 1;
};

/// Reads the names of the keys from the dataset tokens, if present: (Lk), or (B, Lk) for the
/// outermost of the input's `leading` axes. Warns if it has another shape or type.
KeyNames read_key_names(const io::InputBundle& bundle, const Shape& leading, Index keys,
                        cli::Report& report);

}  // namespace attn::tools
