#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "basis_paths/network_verbs.hpp"
#include "cli/words.hpp"
#include "common/costs/block_plan.hpp"
#include "common/costs/cost_report.hpp"
#include "common/frame/bundles.hpp"

namespace attn::tools {
namespace {

constexpr auto index_bytes = static_cast<std::int64_t>(sizeof(Index));
constexpr auto double_bytes = static_cast<std::int64_t>(sizeof(double));

// Numbers of the moments of a network.
Index moments_of(const NetworkTask& task) {
  if (task.verb != "step") return 0;
  return static_cast<Index>(moment_parts(task.step).size()) *
         (task.has_skeleton() ? task.layers().rank() : task.layers().weights());
}

std::int64_t number_bytes(const NetworkTask& task) {
  return static_cast<std::int64_t>(task.f64 ? sizeof(double) : sizeof(float));
}

// Numbers of the type of the computation that a network takes.
Index numbers_in_memory(const NetworkTask& task) {
  const ReluLayers& layers = task.layers();
  if (task.verb == "identify" || task.verb == "check") {
    return task.rule == SkeletonRule::largest ? layers.weights() : 0;
  }
  if (task.verb == "step" || task.verb == "rescale") {
    return 2 * layers.weights() + moments_of(task);
  }
  return layers.weights() + layers.rank() + 2 * layers.hidden();
}

double result_bytes(const NetworkTask& task) {
  const ReluLayers& layers = task.layers();
  const auto size = static_cast<double>(number_bytes(task));
  const auto int32_size = static_cast<double>(sizeof(std::int32_t));
  const auto weights = static_cast<double>(layers.weights());
  const auto hidden = static_cast<double>(layers.hidden());
  const auto rank = static_cast<double>(layers.rank());
  const auto nodes = static_cast<double>(layers.count() + 1);
  if (task.verb == "identify") return (rank * nodes + 2 * hidden) * int32_size;
  if (task.verb == "values") return (rank + hidden) * size + 2 * hidden * int32_size;
  if (task.verb == "step") {
    return (weights + static_cast<double>(moments_of(task))) * size +
           (task.has_skeleton() ? 2 * hidden * int32_size : 0);
  }
  if (task.verb == "reconstruct") return weights * size;
  double numbers = 0;
  for (const ArraySource& dataset : task.datasets()) {
    if (dataset.name() == "scale") continue;
    numbers += static_cast<double>(element_count(task.own_shape(dataset.name())));
  }
  return numbers * size;
}

}  // namespace

std::int64_t plan_network(const cli::Arguments& arguments, const NetworkTask& task) {
  for (const ArraySource& dataset : task.datasets()) {
    require_readable(dataset, arguments.memory);
  }
  const ReluLayers& layers = task.layers();
  // Products, rests and ratios by node; the skeleton, and its copy as int64 if it is read.
  const std::int64_t bytes = numbers_in_memory(task) * number_bytes(task) +
                             5 * layers.nodes() * double_bytes + 4 * layers.hidden() * index_bytes;
  require_memory("one network of " + cli::counted(layers.weights(), "weight"), bytes,
                 arguments.memory);
  return bytes;
}

void report_network_shape(const NetworkTask& task, cli::Report& report) {
  auto& result = report.result();
  result["shape"] = task.axes();
  if (task.has_skeleton()) result["skeleton"] = rule_name(task.rule);
}

void report_path_cost(const cli::Arguments& arguments, const NetworkTask& task,
                      cli::Report& report) {
  const std::int64_t bytes = plan_network(arguments, task);
  report_network_shape(task, report);
  report_run_cost(
      {fmt::format("{} of {}", task.verb, task.shape_words()), bytes,
       static_cast<double>(task.input.problems) * result_bytes(task), arguments.compress > 0, ""},
      report);
}

}  // namespace attn::tools
