#pragma once

#include "cli/command.hpp"

namespace attn::tools {

/// Declares the formulas, datasets, results and references of basis-paths for its man page.
void declare_path_datasets(cli::Declaration& declaration);

}  // namespace attn::tools
