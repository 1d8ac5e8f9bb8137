#pragma once

#include <string>
#include <vector>

#include "common/options/score_options.hpp"
#include "io/input.hpp"

// What decides who attends to whom has names of its own in other programs, such as attention_mask
// and cu_seqlens of FlashAttention. A tool that left such a dataset out in silence would compute
// something else than its user means.

namespace attn::tools {

/// Refuses datasets of attention that have another program's name, unless the bundle also has the
/// dataset that is read in their place: a mask beside an attention_mask, say. So it refuses
/// integer position_ids that begin anew within a row, and scalars and attributes such as
/// softmax_scale, unless their option is chosen. Throws Error(usage) that names the dataset; the
/// hint says what is read.
void require_no_foreign_names(const io::InputBundle& bundle, const ScoreOptions& options);

/// The same for a tool that knows padding only, by datasets called `lengths`: masks and the names
/// of other lengths are refused unless the bundle has one of these.
void require_no_masks(const io::InputBundle& bundle, const std::vector<std::string>& lengths);

}  // namespace attn::tools
