#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "attn_compute/gradient_plan.hpp"
#include "common/heads/attention_input.hpp"
#include "common/heads/heads.hpp"
#include "common/options/score_options.hpp"
#include "common/outputs/head_outputs.hpp"
#include "common/results/result_kinds.hpp"
#include "pass/row_selection.hpp"

namespace attn::tools {

/// The options of attn-compute, resolved.
struct ComputeOptions {
  std::string name;      ///< of the scheme on the command line
  SchemeOptions scheme;  ///< of each step, if attention is repeated
  std::optional<Repetition> repetition;
  ScoreOptions scores;
  std::vector<double> hybrid;           ///< u per head; hnas only
  std::string settings_left;            ///< settings of an earlier run that this run does not use
  std::set<std::string> emitted;        ///< names of the datasets to write
  std::optional<RowSelection> queries;  ///< queries selected for the results per query; else all
  std::vector<GradientKind> gradients;  ///< the gradients among `emitted`
  bool join = false;                    ///< joins the heads, and starts gradients from there

  bool emits(const std::string& result) const { return emitted.count(result) > 0; }
  bool emits_gradients() const;
  /// Whether out is computed, whether written or not.
  bool needs_out() const { return emits("out") || join || emits_gradients(); }
};

/// Lengths of a result's own axes.
Shape own_shape(const ResultKind& kind, const ComputeOptions& options, const AttentionInput& input);

/// Creates the requested datasets; the chunks of weights match the tiles of a pass.
void create_results(HeadOutputs& outputs, const ComputeOptions& options,
                    const AttentionInput& input, bool f64);

/// The memory that the computation needs besides its inputs, on each of `ranks` ranks. `stops`:
/// with a checkpoint.
HeadNeeds compute_needs(const ComputeOptions& options, const AttentionInput& input, bool stops,
                        std::size_t element_size, Index ranks);

/// Reports shapes, bytes and flops for --dry-run. The bytes of the results are the growth of the
/// output file (up to some KiB, before compression). The working memory is the plan's; the program
/// and its libraries add 10 to 30 MB.
void report_cost(const cli::Arguments& arguments, const ComputeOptions& options,
                 const AttentionInput& input, bool f64, cli::Report& report);

}  // namespace attn::tools
