#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "common/results/results.hpp"
#include "common/shards/problem_share.hpp"
#include "io/input.hpp"
#include "sinkhorn_iter/bulk_comparison.hpp"

namespace attn::tools {

/// The small problems of one section, all of one size.
struct BulkTask {
  /// Checks everything but the numbers. Throws Error(input) for datasets whose shapes do not fit,
  /// Error(usage) for results that cannot be made from them.
  BulkTask(const cli::Arguments& arguments, io::InputBundle section);

  static bool suffices(const cli::Arguments&, const io::InputBundle& bundle) {
    return bundle.has("scores");
  }

  std::vector<ArraySource> datasets() const;
  RunEffect effect(const cli::Arguments& arguments) const;
  void report_params(cli::Report& report) const;
  bool emits(const std::string& name) const { return emitted.contains(name); }
  bool differentiates() const { return grad_plan.has_value(); }

  /// The number of problems that must be in memory together: the length of a chain of products.
  Index together() const { return chained ? input.leading.back() : 1; }

  /// Every chain is a unit of shards; without chains, every problem.
  ProblemUnits units() const;
  std::vector<double> work() const;

  /// Bytes of one problem's arrays in memory.
  std::int64_t problem_bytes() const;

  struct Input {
    Shape leading;
    Index problems = 1;
    double size = 1;                      ///< pairs of a problem
    std::shared_ptr<ProblemShare> share;  ///< of a shard, problems that follow each other

    double pairs() const { return static_cast<double>(problems) * size; }

    /// The problems to compute: the first, and their number.
    Index own_first() const { return share && share->size() > 0 ? share->problem(0) : 0; }
    Index own_problems() const { return share ? share->size() : problems; }
  };

  io::InputBundle bundle;
  ArraySource scores;
  std::optional<ArraySource> a, b;       ///< one line for all problems, or one for each
  std::optional<ArraySource> grad_plan;  ///< if the gradient is written or compared
  std::optional<KernelResults> against;
  Input input;
  Index rows = 1;
  Index cols = 1;
  Index iterations = 1;
  bool rows_first = false;  ///< --order
  double eps = 0;
  bool f64 = false;
  bool chained = false;
  std::set<std::string> emitted;  ///< results; "chain" among them

 private:
  // Throws Error(usage) for problems that --eps does not have.
  void require_eps() const;

  // Opens --against and grad_plan if they are needed.
  void take_gradient(const cli::Arguments& arguments);
};

}  // namespace attn::tools
