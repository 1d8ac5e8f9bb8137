#include "common/mechanisms/mechanism_cost.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/words.hpp"
#include "common/costs/cost_report.hpp"
#include "common/frame/bundles.hpp"
#include "common/runs/restart.hpp"
#include "mechanisms/batch.hpp"

namespace attn::tools {
namespace {

using mechanisms::Mechanism;
using mechanisms::TensorForm;

constexpr std::int64_t useful_batch_bytes = std::int64_t{256} << 20;

// Bytes of the arrays of one sequence, and of the shared ones.
template <class T>
std::pair<std::int64_t, std::int64_t> array_bytes(const MechanismTask& task, bool estimate) {
  std::int64_t own = 0;
  std::int64_t shared = 0;
  const auto add = [&](const TensorForm& one, bool there, std::size_t element) {
    if (!there) return;
    const std::int64_t bytes = element_count(mechanisms::shape_of(one.axes, task.sizes)) *
                               static_cast<std::int64_t>(element);
    (is_shared(one) ? shared : own) += bytes;
  };
  for (std::size_t n = 0; n < task.form.inputs.size(); ++n) {
    add(task.form.inputs[n], task.inputs[n].has_value(), sizeof(T));
    add(task.form.inputs[n], task.gradients[n], sizeof(T));
  }
  for (std::size_t n = 0; n < task.form.tokens.size(); ++n) {
    add(task.form.tokens[n], task.tokens[n].has_value(), sizeof(Index));
  }
  for (std::size_t n = 0; n < task.form.results.size(); ++n) {
    add(task.form.results[n], task.results[n], sizeof(T));
    add(task.form.results[n], task.upstream[n].has_value() || (estimate && task.wants_gradients()),
        sizeof(T));
  }
  return {own, shared};
}

}  // namespace

template <class T>
BlockPlan plan_mechanism(const cli::Arguments& arguments, const MechanismTask& task,
                         const Mechanism<T>& mechanism, const MechanismEstimate<T>* estimate) {
  for (const ArraySource& dataset : task.datasets()) {
    require_readable(dataset, arguments.memory);
  }
  auto [own, shared] = array_bytes<T>(task, estimate != nullptr);
  std::vector<bool> results = task.results;
  for (std::size_t n = 0; n < results.size(); ++n) {
    results[n] = results[n] || task.upstream[n].has_value();
  }
  std::int64_t kept =
      shared + mechanisms::batch_bytes(mechanism, task.sizes, results, task.input.problems,
                                       task.wants_gradients(), arguments.threads);
  if (checkpoints(arguments) && task.wants_gradients()) {
    kept += mechanisms::gradient_sums_bytes(task.form, task.sizes, task.input.problems);
  }
  if (estimate != nullptr) {
    own += estimate->sequence_bytes(task.sizes);
    kept += estimate->working_bytes(task.sizes, task.input.problems, arguments.threads);
  }
  return plan_blocks("one sequence", kept, std::max<std::int64_t>(1, own),
                     std::max<Index>(1, task.input.own_problems()), arguments.memory,
                     useful_batch_bytes);
}

template <class T>
void report_mechanism_cost(const cli::Arguments& arguments, const MechanismTask& task,
                           const Mechanism<T>& mechanism, const MechanismEstimate<T>* estimate,
                           cli::Report& report) {
  const BlockPlan plan = plan_mechanism(arguments, task, mechanism, estimate);
  double bytes = 0;
  std::string axes;
  for (const auto& [symbol, length] : task.sizes) {
    axes += fmt::format("{}{} = {}", axes.empty() ? "" : ", ", symbol, length);
    report.result()["axes"][symbol] = length;
  }
  report.result()["sequences"] = task.input.own_problems();
  const auto add = [&](const TensorForm& one, bool written) {
    if (!written) return;
    const Shape leading = is_shared(one) ? Shape{} : Shape{task.input.own_problems()};
    bytes += static_cast<double>(
                 element_count(join(leading, mechanisms::shape_of(one.axes, task.sizes)))) *
             static_cast<double>(sizeof(T));
  };
  for (std::size_t n = 0; n < task.form.results.size(); ++n) {
    add(task.form.results[n], task.results[n]);
  }
  for (std::size_t n = 0; n < task.form.inputs.size(); ++n) {
    add(task.form.inputs[n], task.gradients[n]);
  }
  report_run_cost(
      {fmt::format("{} of {} in {}", cli::counted(task.input.own_problems(), "sequence"), axes,
                   task.f64 ? "float64" : "float32"),
       plan.bytes, bytes, arguments.compress > 0, ""},
      report);
}

#define ATTN_MECHANISM_COST(T)                                                          \
  template BlockPlan plan_mechanism(const cli::Arguments&, const MechanismTask&,        \
                                    const Mechanism<T>&, const MechanismEstimate<T>*);  \
  template void report_mechanism_cost(const cli::Arguments&, const MechanismTask&,      \
                                      const Mechanism<T>&, const MechanismEstimate<T>*, \
                                      cli::Report&);
ATTN_MECHANISM_COST(float)
ATTN_MECHANISM_COST(double)
#undef ATTN_MECHANISM_COST

}  // namespace attn::tools
