#pragma once

#include "cli/command.hpp"
#include "cli/report.hpp"

namespace attn::tools {

/// The verb of bulk().
constexpr const char* bulk_verb = "bulk";

/// Declares the options, datasets and results of the verb.
void declare_bulk(cli::Declaration& declaration);

/// Many small problems of ready-made scores (…, m, n), m and n <= 64, at once: see
/// lib/sinkhorn/small_problems.hpp.
cli::Outcome bulk(const cli::Arguments& arguments, cli::Report& report);

}  // namespace attn::tools
