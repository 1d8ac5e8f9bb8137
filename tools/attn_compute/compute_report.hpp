#pragma once

#include <string>

#include "attn_compute/attention_results.hpp"
#include "cli/command.hpp"
#include "common/group_report.hpp"
#include "common/totals.hpp"
#include "io/output.hpp"

/// What attn-compute has to say of a run: in the bundle's attributes, in the JSON, in a line.
namespace attn::tools {

/// Writes the attn_* attributes: everything later tools need to make the same weights again.
void record_results(const cli::Arguments& arguments, const ComputeOptions& options,
                    const AttentionInput& input, bool f64, const Totals& totals,
                    io::OutputBundle& output);

/// Fills the report's result; the summary line and the exit status.
cli::Outcome conclude(const ComputeOptions& options, const AttentionInput& input, bool f64,
                      const Totals& totals, cli::Report& report);

/// The same for all groups of --each together, whose own conclusions `groups` has gathered: the
/// worst status goes into the result, beside them.
cli::Outcome conclude_groups(const GroupReport& groups, Scheme scheme, Index heads,
                             const Totals& totals, cli::Report& report);

}  // namespace attn::tools
