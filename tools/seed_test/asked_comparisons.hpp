#pragma once

#include <vector>

#include "cli/command.hpp"
#include "seed_test/seed_comparison.hpp"

namespace attn::tools {

/// What the command line asks for: a comparison for each metric, with its groups, names, test,
/// direction and reference; not yet tested. Throws Error(usage) for options that do not fit
/// together, and what Runs and read_run_table throw.
std::vector<SeedComparison> asked_comparisons(const cli::Arguments& arguments);

}  // namespace attn::tools
