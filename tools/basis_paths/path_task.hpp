#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "common/results/results.hpp"
#include "common/shards/problem_share.hpp"
#include "head/operand.hpp"
#include "paths/basis.hpp"
#include "paths/step.hpp"

namespace attn::tools {

/// cyclic counts columns in each head, across_heads through all heads.
enum class SkeletonRule { cyclic, across_heads, largest, stored };

/// The heads or networks of a section, each with its own weights and skeleton.
struct PathProblems {
  Shape leading;
  Index problems = 1;
  bool any_float64 = false;
  std::shared_ptr<ProblemShare> share;  ///< of a shard; null: all

  /// The number of problems to compute, and the n-th of them.
  Index own_problems() const { return share ? share->size() : problems; }
  Index own_problem(Index n) const { return share ? share->problem(n) : n; }

  /// Each can be computed separately, with the same work.
  ProblemUnits units() const { return ProblemUnits(problems); }
  std::vector<double> work() const {
    return std::vector<double>(static_cast<std::size_t>(problems), 1);
  }
};

/// The properties of the weights that are known before any number is read.
struct PathInput : PathProblems {
  Index rows = 0;     ///< d1
  Index columns = 0;  ///< d2
};

/// The task of basis-paths for one section: INPUT, or one group of it.
struct PathTask {
  /// Checks everything but the numbers; reads only the number of past steps. Throws Error(input)
  /// for missing or mismatched datasets, Error(usage) for missing or contradictory options and
  /// options without effect.
  PathTask(const cli::Arguments& arguments, io::InputBundle section);

  /// Whether `bundle` has datasets from which the task can be computed.
  static bool suffices(const cli::Arguments& arguments, const io::InputBundle& bundle);

  /// The effect of the run on results of earlier runs, and the inputs of its own results.
  RunEffect effect(const cli::Arguments& arguments) const;
  void report_params(cli::Report& report) const;

  ProblemUnits units() const { return input.units(); }
  std::vector<double> work() const { return input.work(); }

  /// All datasets that are read; the one called `name`, or none.
  std::vector<ArraySource> datasets() const;
  const Operand* operand(const std::string& name) const;

  /// Axes of a dataset after the heads' axes: (rows, d2), or (d2).
  Shape own_shape(const std::string& name) const;

  std::string place(const std::string& name, Index problem) const;

  /// Whether reconstruct computes paths rather than weights.
  bool makes_paths() const {
    return verb == "reconstruct" && (all_paths || !listed.empty() || operand("path") != nullptr);
  }

  /// Whether identify writes the exponents of paths.
  bool makes_exponents() const {
    return verb == "identify" && (!listed.empty() || operand("path") != nullptr);
  }

  /// The number of the first column of a head, from which the cyclic skeleton counts.
  Index first_column(Index problem) const {
    return rule == SkeletonRule::across_heads ? problem % input.leading.back() * input.columns : 0;
  }

  /// "4 x 512 x 64": leading axes, d1, d2, for a summary.
  std::string shape_words() const;

  static constexpr const char* unit = "head";

  /// The number of requested paths per head.
  Index paths_asked() const;

  /// Whether a skeleton is needed.
  bool has_skeleton() const;

  io::InputBundle bundle;
  std::string verb;
  PathInput input;
  bool f64 = false;
  SkeletonRule rule = SkeletonRule::cyclic;
  StepOptions step;             ///< for `step`
  bool stops = true;            ///< whether a singular column is an error
  bool all_paths = false;       ///< for `reconstruct`
  std::vector<Path> listed;     ///< for `reconstruct` and `identify`, from --paths
  std::optional<Index> length;  ///< for `check`: number of inputs, s

 private:
  void take_shape(const std::string& name, bool of_basis);
  void take(const std::string& name);
  void take_skeleton(const cli::Arguments& arguments);
  void take_paths(const cli::Arguments& arguments);
  void take_exponents(const cli::Arguments& arguments);
  void take_path_list();
  void take_step(const cli::Arguments& arguments);

  std::vector<Operand> operands_;
};

const std::vector<std::string>& optimizer_names();
std::string optimizer_name(Optimizer optimizer);

/// The options of step. Throws Error(usage) for missing options and options without effect.
StepOptions read_step_options(const cli::Arguments& arguments);

/// Whether a singular column or node is an error.
bool stops_at_singular(const cli::Arguments& arguments);

/// The moments of the optimiser in `bundle`, if any; `step` then gets the number of the next step.
/// Throws Error(input) if the stored state is incomplete.
std::vector<std::string> stored_moments(const io::InputBundle& bundle, StepOptions& step);

/// Throws Error(input) if `bundle` has moments of si-adam: they belong to a skeleton that is
/// missing or, with `stored`, would be replaced.
void refuse_moments(const io::InputBundle& bundle, bool stored, const cli::Arguments& arguments);

/// The name of a part ("m", "v", "step") of an optimiser's state: "si_adam_m".
std::string state_name(Optimizer optimizer, const std::string& part);

/// The moments that a step keeps, "m" and "v"; and the names of its whole state.
std::vector<std::string> moment_parts(const StepOptions& step);
std::vector<std::string> state_names(const StepOptions& step);

std::string rule_name(SkeletonRule rule);

/// Throws Error(input) unless a dataset has an integer type (for an `index`) or a floating-point
/// type (otherwise).
void require_path_type(const ArraySource& dataset, bool index);

/// "in.h5:/wq has shape (3, 4)"
std::string shape_text(const ArraySource& dataset);

}  // namespace attn::tools
