#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "common/operand.hpp"
#include "common/results.hpp"
#include "paths/basis.hpp"
#include "paths/step.hpp"

namespace attn::tools {

enum class SkeletonRule { cyclic, largest, stored };

/// What is known of the weights before any number is read.
struct PathInput {
  Shape leading;
  Index problems = 1;  ///< heads
  Index rows = 0;      ///< d1
  Index columns = 0;   ///< d2
  bool any_float64 = false;
};

/// What basis-paths has to do for one section: INPUT, or one group of it.
struct PathTask {
  /// Looks at everything but the numbers, of which it reads how many steps were made. Throws
  /// Error(input) for datasets that are not there or do not fit, Error(usage) for options that are
  /// missing, clash or have no effect.
  PathTask(const cli::Arguments& arguments, io::InputBundle section);

  /// What results of earlier runs depend on, and what this run makes its own from.
  RunEffect effect(const cli::Arguments& arguments) const;
  void report_params(cli::Report& report) const;

  /// All that are read; one of them, or none.
  std::vector<io::InputDataset> datasets() const;
  const Operand* operand(const std::string& name) const;

  /// Axes of a dataset behind the heads: (rows, d2), or (d2).
  Shape own_shape(const std::string& name) const;

  std::string place(const std::string& name, Index problem) const;

  /// Of reconstruct: paths rather than weights.
  bool makes_paths() const {
    return verb == "reconstruct" && (all_paths || !listed.empty() || operand("path") != nullptr);
  }

  /// How many of a head those are.
  Index paths_asked() const;

  /// Whether skeletons are wanted.
  bool has_skeleton() const;

  io::InputBundle bundle;
  std::string verb;
  PathInput input;
  bool f64 = false;
  SkeletonRule rule = SkeletonRule::cyclic;
  StepOptions step;             ///< of `step`
  bool stops = true;            ///< at a singular column
  bool all_paths = false;       ///< of `reconstruct`
  std::vector<Path> listed;     ///< of `reconstruct`, by --paths
  std::optional<Index> length;  ///< of `check`: inputs, s

 private:
  void take_shape(const std::string& name, bool of_basis);
  void take(const std::string& name);
  void take_skeleton(const cli::Arguments& arguments);
  void take_paths(const cli::Arguments& arguments);
  void take_path_list();
  void take_step(const cli::Arguments& arguments);
  void take_state();

  std::vector<Operand> operands_;
};

const std::vector<std::string>& optimizer_names();
std::string optimizer_name(Optimizer optimizer);

/// The name of a part ("m", "v", "step") of an optimiser's state: "si_adam_m".
std::string state_name(Optimizer optimizer, const std::string& part);

std::string rule_name(SkeletonRule rule);

/// Throws Error(input) where a dataset is not of an integer type, for an `index`, or a floating
/// one.
void require_path_type(const io::InputDataset& dataset, bool index);

/// "in.h5:/wq has shape (3, 4)"
std::string shape_text(const io::InputDataset& dataset);

}  // namespace attn::tools
