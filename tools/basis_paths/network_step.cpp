// The verb step of basis-paths --network relu.

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "basis_paths/network_verbs.hpp"
#include "basis_paths/path_verbs.hpp"
#include "basis_paths/step_words.hpp"
#include "paths/relu_step.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

// A moment of a network, zeros before the first step.
template <class T>
Buffer<T> network_moment(const NetworkRun& run, Index problem, const char* part) {
  const std::string name = state_name(run.task.step.optimizer, part);
  if (run.task.operand(name) != nullptr) return run.read<T>(name, problem);
  Buffer<T> zeros(run.task.own_shape(name).front());
  std::fill(zeros.begin(), zeros.end(), T{0});
  return zeros;
}

template <class T>
void require_network_squares(const NetworkRun& run, Index problem, const Buffer<T>& second) {
  for (Index n = 0; n < second.size(); ++n) {
    if (second[n] >= 0) continue;
    const Operand& stored = *run.task.operand(state_name(run.task.step.optimizer, "v"));
    const Shape at = join(unravel(problem, run.task.input.leading), {n});
    throw Error(Failure::input,
                fmt::format("{} has {} at [{}], expected no negative numbers",
                            stored.dataset.address(), second[n], fmt::join(at, ", ")));
  }
}

template <class T>
ReluStepSummary step_network(NetworkRun& run, Index problem, PathPart& part) {
  const NetworkTask& task = run.task;
  NetworkMatrices<T> weights(run, problem);
  const NetworkMatrices<T> gradients(run, problem, "grad_w");
  const std::vector<std::string> moments = moment_parts(task.step);
  Buffer<T> first, second;
  ReluStepMatrices<T> matrices = {weights.matrices, gradients.views()};
  if (!moments.empty()) {
    first = network_moment<T>(run, problem, "m");
    matrices.first_moment = {first.data(), 1, first.size()};
  }
  if (moments.size() > 1) {
    second = network_moment<T>(run, problem, "v");
    require_network_squares(run, problem, second);
    matrices.second_moment = {second.data(), 1, second.size()};
  }
  ReluSkeleton skeleton;
  if (task.has_skeleton()) {
    skeleton = run.skeleton(problem, weights.views());
    run.require_skeleton(problem, skeleton, weights.views());
  }
  ReluStepSummary found;
  run.report.compute(
      [&] { found = step(task.step, task.layers(), skeleton, matrices, run.arguments.threads); });
  if (task.stops && !found.singular.empty()) return found;
  if (task.has_skeleton()) run.put_skeleton(part, problem, skeleton);
  run.put_matrices(part, "w", problem, std::move(weights));
  for (const std::string& moment : moments) {
    run.put(part, state_name(task.step.optimizer, moment), problem,
            std::move(moment == "m" ? first : second));
  }
  return found;
}

Json network_json(const Shape& index, const ReluStepSummary& found) {
  Json singular = Json::array();
  for (const SingularNode& node : found.singular) {
    singular.push_back({{"layer", node.layer}, {"node", node.node}, {"ratio", node.ratio}});
  }
  return {{"index", index},
          {"ratio", ratios_json(found)},
          {"inconsistency", found.inconsistency},
          {"singular", std::move(singular)}};
}

std::string singular_network_text(const NetworkTask& task, Index problem,
                                  const ReluStepSummary& found) {
  const SingularNode& first = found.singular.front();
  const Operand& weights = *task.operand(NetworkTask::weights_name(first.layer));
  const Shape& leading = task.input.leading;
  const double ratio = std::isnan(first.ratio) ? std::abs(first.ratio) : first.ratio;
  return fmt::format(
      "{}{}: node {} of layer {} has ratio R = {:.3g}; in {} of {} hidden nodes R is below {} "
      "(--min-ratio) or not finite",
      weights.dataset.address(),
      leading.empty() ? ""
                      : fmt::format(", network [{}]", fmt::join(unravel(problem, leading), ", ")),
      first.node, first.layer, ratio, found.singular.size(), task.layers().hidden(),
      task.step.min_ratio);
}

void add_network(const ReluStepSummary& found, ReluStepSummary& all) {
  all.singular.insert(all.singular.end(), found.singular.begin(), found.singular.end());
  all.least_ratio = std::min(all.least_ratio, found.least_ratio);
  all.largest_ratio = std::max(all.largest_ratio, found.largest_ratio);
  all.inconsistency = std::max(all.inconsistency, found.inconsistency);
}

void create_network_results(NetworkRun& run) {
  const StepOptions& step = run.task.step;
  run.create_matrices("w");
  if (run.task.has_skeleton()) run.create_skeleton();
  for (const std::string& moment : moment_parts(step)) {
    run.create(state_name(step.optimizer, moment), run.type());
  }
  if (!keeps_moments(step.optimizer)) return;
  run.write_once(state_name(step.optimizer, "step"), DType::i64, {}, &step.number);
}

}  // namespace

std::string step_weights(NetworkRun& run) {
  const NetworkTask& task = run.task;
  plan_network(run.arguments, task);
  create_network_results(run);
  ReluStepSummary all;
  Json networks = Json::array();
  run.for_each_problem([&](Index problem) {
    ReluStepSummary found;
    run.in_parts(1, 1, found, [&](Index, Index, PathPart& part) {
      found = task.f64 ? step_network<double>(run, problem, part)
                       : step_network<float>(run, problem, part);
      if (!task.stops || found.singular.empty()) return;
      throw Error(Failure::numerical, singular_network_text(task, problem, found),
                  singular_hint(task.rule));
    });
    if (!task.has_skeleton()) return;
    add_network(found, all);
    networks.push_back(network_json(unravel(problem, task.input.leading), found));
    if (found.singular.empty()) return;
    run.report.warn_of_problem(
        problem, singular_network_text(task, problem, found) + ": " + fate_text(task.step, found));
  });
  Json& result = run.report.result();
  result["optimizer"] = optimizer_name(task.step.optimizer);
  if (keeps_moments(task.step.optimizer)) result["step"] = task.step.number;
  if (!task.has_skeleton()) return step_text(task.step, all, "nodes");
  result["singular"] = all.singular.size();
  result["ratio"] = ratios_json(all);
  result["inconsistency"] = all.inconsistency;
  result["networks"] = std::move(networks);
  if (all.inconsistency > (task.f64 ? inconsistent<double> : inconsistent<float>)) {
    run.report.warn_of_largest(
        "inconsistency", all.inconsistency,
        fmt::format(
            "the gradients are not those of a loss of the output: the sums of gradient times "
            "weight into and out of a hidden node differ by {:.2g} of their size",
            all.inconsistency));
  }
  return step_text(task.step, all, "nodes");
}

}  // namespace attn::tools
