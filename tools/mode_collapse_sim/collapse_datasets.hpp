#pragma once

#include "cli/command.hpp"

namespace attn::tools {

/// Declares the formulas, datasets, results and references of mode-collapse-sim for its man page.
void declare_collapse_datasets(cli::Declaration& declaration);

}  // namespace attn::tools
