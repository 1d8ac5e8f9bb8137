#pragma once

#include "cli/command.hpp"

namespace attn::tools {

/// Declares the formulas, datasets, results and references of attn-compute for its man page.
void declare_compute_datasets(cli::Declaration& declaration);

}  // namespace attn::tools
