#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "common/attention_input.hpp"
#include "common/heads.hpp"
#include "common/result_kinds.hpp"
#include "common/results.hpp"
#include "fenchel/dual.hpp"
#include "tensor/buffer.hpp"

namespace attn::tools {

/// What lambda-solve was asked for.
struct DualTaskOptions {
  ScoreOptions scores;
  double alpha = 1;
  double template_scale = 1;    ///< what k, x or t is multiplied by
  std::optional<double> gamma;  ///< of optimal transport, else KL
  DualOptions solver;           ///< without threads
  std::set<std::string> emitted;

  bool emits(const std::string& name) const { return emitted.count(name) > 0; }
};

/// What lambda-solve has to do for one section: INPUT, or one group of it.
struct DualTask {
  /// Looks at everything but the numbers, of which it reads the cost. Throws what AttentionInput
  /// throws, Error(usage) for options that would have no effect, Error(input) for a cost that is
  /// none or an energy that is no inner product.
  DualTask(const cli::Arguments& arguments, io::InputBundle section);

  /// What results of earlier runs depend on, and what this run makes its own from.
  RunEffect effect(const cli::Arguments& arguments) const;
  void report_params(cli::Report& report) const;
  std::vector<io::InputDataset> datasets() const;

  /// Axes of templates and evidence: d, or D of projections.
  Index axes() const;
  Shape own_shape(const DualResultKind& kind) const;
  HeadNeeds needs() const;

  io::InputBundle bundle;
  DualTaskOptions options;
  AttentionInput input;
  bool f64;
  std::optional<io::InputDataset> cost_dataset;
  Buffer<double> cost;                ///< (n, n)
  std::vector<Index> walled_sources;  ///< that the cost lets go nowhere

 private:
  void read_cost();
};

/// Shapes, bytes and flops of what would be done, for --dry-run.
void report_dual_cost(const cli::Arguments& arguments, const DualTask& task, cli::Report& report);

}  // namespace attn::tools
