#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "attn_compute/gradient_plan.hpp"
#include "common/attention_input.hpp"
#include "common/head_outputs.hpp"
#include "common/heads.hpp"
#include "common/result_kinds.hpp"
#include "common/score_options.hpp"
#include "pass/row_selection.hpp"

namespace attn::tools {

/// What attn-compute was asked for.
struct ComputeOptions {
  SchemeOptions scheme;
  ScoreOptions scores;
  std::vector<double> hybrid;           ///< u per head; hnas only
  std::string settings_left;            ///< of an earlier run, which this one does not take over
  std::set<std::string> emitted;        ///< names of the datasets to write
  std::optional<RowSelection> queries;  ///< those that results by query are wanted for; else all
  std::vector<GradientKind> gradients;  ///< those of `emitted` that are gradients

  bool emits(const std::string& name) const { return emitted.count(name) > 0; }
  bool emits_gradients() const;
};

/// Lengths of a result's own axes.
Shape own_shape(const ResultKind& kind, const ComputeOptions& options, const AttentionInput& input);

/// Creates the datasets asked for, weights in chunks that tile the tiles of a pass.
void create_results(HeadOutputs& outputs, const ComputeOptions& options,
                    const AttentionInput& input, bool f64);

/// What the computation takes in memory beside its inputs.
HeadNeeds compute_needs(const ComputeOptions& options, const AttentionInput& input,
                        std::size_t element_size);

/// Shapes, bytes and flops of what would be done, for --dry-run. The bytes of the results are those
/// that the output's file will have more than without them (but for some KiB, and deflating); the
/// working memory is that of the plan, to which the program and its libraries add 10 to 30 MB.
void report_cost(const cli::Arguments& arguments, const ComputeOptions& options,
                 const AttentionInput& input, bool f64, cli::Report& report);

}  // namespace attn::tools
