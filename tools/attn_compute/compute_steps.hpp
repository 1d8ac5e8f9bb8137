#pragma once

#include <string>
#include <vector>

#include "attn_compute/attention_results.hpp"
#include "attn_compute/compute_task.hpp"
#include "cli/command.hpp"
#include "cli/progress.hpp"
#include "common/tables/group_report.hpp"
#include "common/tables/totals.hpp"
#include "io/output.hpp"

namespace attn::tools {

/// Declares the formulas, datasets, results and references of attn-compute for its man page.
void declare_compute_datasets(cli::Declaration& declaration);

/// Totals over the heads of a run.
struct ComputeTotals {
  Totals scheme;
  /// The sum over all heads, by iteration; empty if a head has none.
  std::vector<double> log_likelihood;

  void add_likelihood(const std::vector<double>& of_head) {
    log_likelihood.resize(of_head.size());
    for (std::size_t n = 0; n < of_head.size(); ++n) log_likelihood[n] += of_head[n];
  }
};

/// Computes one section head by head and writes results and attributes to `output` without
/// committing it. Heads that `checkpoint` holds are taken from there; it may be null.
ComputeTotals compute_section(const cli::Arguments& arguments, const ComputeTask& task,
                              io::OutputBundle output, Checkpoint* checkpoint,
                              cli::Progress& progress, cli::Report& report);

/// Writes the attn_* attributes, which later tools need to compute the same weights again.
void record_results(const cli::Arguments& arguments, const ComputeOptions& options,
                    const AttentionInput& input, bool f64, const Totals& totals,
                    io::OutputBundle& output);

/// Fills in the report's result and returns the summary line and the exit status.
cli::Outcome conclude(const ComputeOptions& options, const AttentionInput& input, bool f64,
                      const ComputeTotals& found, cli::Report& report);

/// The same for all groups of --each together. `groups` has gathered the conclusion of each group;
/// the worst status is added to the result.
cli::Outcome conclude_groups(const GroupReport& groups, const std::string& scheme, Index heads,
                             const Totals& totals, cli::Report& report);

}  // namespace attn::tools
