#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scheme/row_selection.hpp"
#include "shared/attention_input.hpp"
#include "shared/gradient_plan.hpp"
#include "shared/head_outputs.hpp"
#include "shared/heads.hpp"
#include "shared/score_options.hpp"

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

/// One dataset that attn-compute can write: its own axes, behind the leading ones, and its type.
struct ResultKind {
  std::string name;
  std::vector<std::string> axes;  ///< of "query", "key", "channel"
  bool computed_type;             ///< of the type computed in; else float64
  bool by_choice;                 ///< of the chosen queries alone where some are chosen
};

const std::vector<ResultKind>& result_kinds();

/// Lengths of a result's own axes.
Shape own_shape(const ResultKind& kind, const ComputeOptions& options, const AttentionInput& input);

/// Creates the datasets asked for, weights in chunks that tile the tiles of a pass.
void create_results(HeadOutputs& outputs, const ComputeOptions& options,
                    const AttentionInput& input, bool f64);

/// u per head: --hybrid, else with `recorded` the attribute attn_hybrid, else the dataset hybrid.
/// Throws Error(usage) where there is none, Error(input) where one lies outside [0, 1].
std::vector<double> hybrid_per_head(const cli::Arguments& arguments, const io::InputBundle& bundle,
                                    const AttentionInput& input, bool recorded);

/// What the computation takes in memory beside its inputs.
HeadNeeds compute_needs(const ComputeOptions& options, const AttentionInput& input,
                        std::size_t element_size);

/// Iterations of sinkhorn, at most; 1 for other schemes.
Index most_iterations(const SchemeOptions& options);

/// How often all scores are made by what goes forward; at most, for sinkhorn until a tolerance is
/// met.
double score_passes(const SchemeOptions& options);

/// Shapes, bytes and flops of what would be done, for --dry-run. The bytes of the results are those
/// that the output's file will have more than without them (but for some KiB, and deflating); the
/// working memory is that of the plan, to which the program and its libraries add 10 to 30 MB.
void report_cost(const cli::Arguments& arguments, const ComputeOptions& options,
                 const AttentionInput& input, bool f64, cli::Report& report);

}  // namespace attn::tools
