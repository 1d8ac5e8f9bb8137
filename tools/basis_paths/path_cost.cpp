#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "basis_paths/path_verbs.hpp"
#include "common/costs/cost_report.hpp"
#include "common/frame/bundles.hpp"

namespace attn::tools {
namespace {

// Counts of the numbers written per head, by the size of their type.
struct Written {
  double floating = 0;
  double int32 = 0;
};

Written written(const PathTask& task) {
  const auto rows = static_cast<double>(task.input.rows);
  const auto columns = static_cast<double>(task.input.columns);
  const double basis = (2 * rows - 1) * columns;
  const double weights = 2 * rows * columns;
  if (task.verb == "identify") {
    const double exponents =
        task.makes_exponents() ? 6 * static_cast<double>(task.paths_asked()) : 0;
    return {0, 3 * basis + 2 * columns + exponents};
  }
  if (task.verb == "start") return {weights, 2 * columns};
  if (task.verb == "values") return {basis + columns, 2 * columns};
  if (task.verb == "rescale") {
    double numbers = 0;
    for (const ArraySource& dataset : task.datasets()) {
      if (dataset.name() == "scale") continue;
      numbers += static_cast<double>(element_count(task.own_shape(dataset.name())));
    }
    return {numbers, 0};
  }
  if (task.verb == "step") {
    const double moments = static_cast<double>(moment_parts(task.step).size()) * weights;
    return {weights + moments, task.has_skeleton() ? 2 * columns : 0};
  }
  if (task.verb != "reconstruct") return {};
  if (!task.makes_paths()) return {weights, 0};
  return {static_cast<double>(task.paths_asked()), 0};
}

}  // namespace

void report_path_cost(const cli::Arguments& arguments, const PathTask& task, cli::Report& report) {
  const Written head = written(task);
  const auto heads = static_cast<double>(task.input.own_problems());
  const auto size = static_cast<double>(task.f64 ? sizeof(double) : sizeof(float));
  const auto index_size = static_cast<double>(sizeof(std::int32_t));
  const double bytes = heads * (head.floating * size + head.int32 * index_size);
  const std::int64_t memory =
      task.makes_paths() ? plan_paths(arguments, task).bytes : plan_panels(arguments, task).bytes;
  report_path_shape(task, report);
  const Shape shape = join(task.input.leading, {task.input.rows, task.input.columns});
  report_run_cost(
      {fmt::format("{} of {}", task.verb, times(shape)), memory, bytes, arguments.compress > 0, ""},
      report);
}

}  // namespace attn::tools
