#pragma once

#include <string>
#include <vector>

#include "common/options/score_options.hpp"
#include "io/input.hpp"

// Datasets that decide who attends to whom have other names in other programs, such as
// attention_mask and cu_seqlens of FlashAttention. A tool that silently ignored such a dataset
// would not compute what its user means.

namespace attn::tools {

/// Refuses datasets of attention that have another program's name, unless the bundle also has the
/// dataset that is read in their place, such as a mask beside an attention_mask. Also refuses
/// integer position_ids that restart within a row, and scalars and attributes such as
/// softmax_scale, unless their option is chosen. Throws Error(usage) that names the dataset; the
/// hint says what is read.
void require_no_foreign_names(const io::InputBundle& bundle, const ScoreOptions& options);

/// The same for a tool that knows padding only, by datasets called `lengths`: masks and other names
/// for lengths are refused unless the bundle has one of `lengths`.
void require_no_masks(const io::InputBundle& bundle, const std::vector<std::string>& lengths);

/// For an INPUT without `name`, q and k: throws Error(input) with the --map as a hint if one of
/// `others`, which other programs call it, is a dataset of INPUT.
void refuse_other_names(const io::InputBundle& bundle, const std::string& name,
                        const std::vector<std::string>& others);

}  // namespace attn::tools
