#pragma once

#include "cli/command.hpp"

namespace attn::tools {

/// Declares the formulas, datasets, results and references of lambda-solve for its man page.
void declare_dual_datasets(cli::Declaration& declaration);

}  // namespace attn::tools
