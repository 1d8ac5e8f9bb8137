#pragma once

#include "cli/command.hpp"

namespace attn::tools {

/// Declares the formulas, datasets, results and references of explain-away-stats for its man page.
void declare_column_datasets(cli::Declaration& declaration);

}  // namespace attn::tools
