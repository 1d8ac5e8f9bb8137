#pragma once

#include <optional>
#include <string>
#include <vector>

#include "attnkit/error.hpp"
#include "basis_paths/path_task.hpp"
#include "cli/command.hpp"
#include "common/results/results.hpp"
#include "head/operand.hpp"
#include "paths/relu_basis.hpp"

namespace attn::tools {

/// The task of basis-paths --network relu for one section: INPUT, or one group of it. The weights
/// are the datasets w1, w2, … (…, n0, n1), (…, n1, n2), …, with the same leading axes.
struct NetworkTask {
  /// Checks everything but the numbers; reads only the numbers of layer_sizes. Throws Error(input)
  /// for missing or mismatched datasets, Error(usage) for missing options and options that do not
  /// apply to networks.
  NetworkTask(const cli::Arguments& arguments, io::InputBundle section);

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

  const ReluLayers& layers() const { return *layers_; }

  /// Axes of a dataset after the networks' axes.
  Shape own_shape(const std::string& name) const;

  /// "w2" or, with another prefix, "grad_w2"; for all layers in order.
  static std::string weights_name(Index layer, const std::string& prefix = "w");
  std::vector<std::string> weights_names(const std::string& prefix = "w") const;

  /// The leading axes and the sizes of the layers, of which there may be more than an array has
  /// axes.
  std::vector<Index> axes() const;

  /// "2 x 784 x 100 x 10": the same for a summary.
  std::string shape_words() const;

  bool has_skeleton() const {
    return verb == "step" ? steps_in_paths(step.optimizer) : verb != "rescale";
  }

  static constexpr const char* unit = "network";

  io::InputBundle bundle;
  std::string verb;
  PathProblems input;
  bool f64 = false;
  SkeletonRule rule = SkeletonRule::cyclic;
  StepOptions step;   ///< for `step`
  bool stops = true;  ///< whether a singular node is an error

 private:
  void take_weights();
  void take_sizes();
  void take_skeleton(const cli::Arguments& arguments);
  void take(const std::string& name);
  void take_path_list();
  void add(const ArraySource& dataset, const Shape& own);

  std::optional<ReluLayers> layers_;
  std::vector<Operand> operands_;
};

/// Layers of these sizes, two or more. Throws Error(failure) naming `what` for a size below 1, or
/// more weights than can be addressed.
ReluLayers layers_of(const std::vector<Index>& sizes, const std::string& what, Failure failure);

/// Throws Error(usage) for options that only attention weights have, or that --network relu lacks.
void require_network_options(const cli::Arguments& arguments);

}  // namespace attn::tools
