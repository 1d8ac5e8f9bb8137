#pragma once

#include "cli/command.hpp"

namespace attn::tools {

/// Declares the formulas, datasets, results and references of sinkhorn-iter for its man page.
void declare_transport_datasets(cli::Declaration& declaration);

}  // namespace attn::tools
