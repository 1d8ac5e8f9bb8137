// The verbs rescale, start and step of basis-paths.

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "basis_paths/path_verbs.hpp"
#include "basis_paths/step_words.hpp"
#include "common/frame/bundles.hpp"
#include "paths/rescale.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

struct RescaledRows {
  std::string name;
  Rescaled first;
  Rescaled second;  ///< of the second half of the rows: moments of W_K follow those of W_Q
};

const std::vector<RescaledRows>& rescaled_datasets() {
  using enum Rescaled;
  static const std::vector<RescaledRows> all = {
      {"wq", times, times},        {"wk", over, over},
      {"bq", times, times},        {"bk", over, over},
      {"wk_skeleton", over, over}, {"grad_wq", over, over},
      {"grad_wk", times, times},   {"sgd_m", over, times},
      {"adam_m", over, times},     {"adam_v", over_square, times_square},
  };
  return all;
}

template <class T>
Buffer<T> read_factors(const PathRun& run, const PathPanel& panel) {
  Buffer<T> factors = run.read<T>("scale", panel);
  for (Index c = 0; c < panel.count; ++c) {
    if (factors[c] != 0) continue;
    const Operand& scale = *run.task.operand("scale");
    Shape at = unravel(scale.block(panel.problem), scale.leading);
    at.push_back(panel.first + c);
    throw Error(Failure::input, fmt::format("{} has 0 at [{}], expected factors other than 0",
                                            scale.dataset.address(), fmt::join(at, ", ")));
  }
  return factors;
}

template <class T>
void rescale_rows(PathRun& run, Index problem, const RescaledRows& rescaled) {
  run.in_panels(problem, [&](const PathPanel& panel, PathPart& part) {
    const Buffer<T> factors = read_factors<T>(run, panel);
    const std::span<const T> span(factors.data(), static_cast<std::size_t>(panel.count));
    Buffer<T> numbers = run.read<T>(rescaled.name, panel);
    const std::vector<T> before(numbers.data(), numbers.data() + numbers.size());
    const MatrixView<T> w(numbers.data(), numbers.size() / panel.count, panel.count);
    const Index half = w.rows / 2;
    run.report.compute([&] {
      rescale_columns<T>(w.row_range(0, half), span, rescaled.first);
      rescale_columns<T>(w.row_range(half, w.rows - half), span, rescaled.second);
    });
    require_normal(rescaled.name, run.place(rescaled.name, panel), numbers, [&](Index n) {
      return std::abs(numbers[n]) == std::abs(before[static_cast<std::size_t>(n)]);
    });
    run.put(part, rescaled.name, panel, std::move(numbers));
  });
}

template <class T>
void start_head(PathRun& run, Index problem) {
  run.in_panels(problem, [&](const PathPanel& panel, PathPart& part) {
    Buffer<T> wq = run.read<T>("wq", panel);
    Buffer<T> wk = run.read<T>("wk", panel);
    const MatrixView<T> q(wq.data(), run.task.input.rows, panel.count);
    const MatrixView<T> k(wk.data(), run.task.input.rows, panel.count);
    const Skeleton skeleton = run.skeleton<T>(panel, q, k);
    run.report.compute([&] { set_skeleton_to_one(q, k, skeleton); });
    run.put_skeleton(part, panel, skeleton);
    run.put(part, "wq", panel, std::move(wq));
    run.put(part, "wk", panel, std::move(wk));
  });
}

// The datasets that a step reads for a panel and writes back.
template <class T>
struct PanelStep {
  Buffer<T> wq, wk, grad_wq, grad_wk, first, second;
  StepMatrices<T> matrices;

  PanelStep(const PathRun& run, const PathPanel& panel) {
    const PathTask& task = run.task;
    const auto view = [&](const Buffer<T>& numbers) {
      return MatrixView<T>(numbers.data(), numbers.size() / panel.count, panel.count);
    };
    wq = run.read<T>("wq", panel);
    wk = run.read<T>("wk", panel);
    grad_wq = run.read<T>("grad_wq", panel);
    grad_wk = run.read<T>("grad_wk", panel);
    matrices = {view(wq), view(wk), view(grad_wq), view(grad_wk)};
    const std::vector<std::string> moments = moment_parts(task.step);
    const auto moment = [&](const char* part) {
      const std::string name = state_name(task.step.optimizer, part);
      if (task.operand(name) != nullptr) return run.read<T>(name, panel);
      Buffer<T> zeros(task.own_shape(name).front() * panel.count);
      std::fill(zeros.begin(), zeros.end(), T{0});
      return zeros;
    };
    if (moments.empty()) return;
    first = moment("m");
    matrices.first_moment = view(first);
    if (moments.size() == 1) return;
    second = moment("v");
    require_squares(run, panel);
    matrices.second_moment = view(second);
  }

  void require_squares(const PathRun& run, const PathPanel& panel) const {
    const std::string name = state_name(run.task.step.optimizer, "v");
    for (Index n = 0; n < second.size(); ++n) {
      if (second[n] >= 0) continue;
      Shape at = unravel(panel.problem, run.task.input.leading);
      at.push_back(n / panel.count);
      at.push_back(panel.first + n % panel.count);
      throw Error(Failure::input, fmt::format("{} has {} at [{}], expected no negative numbers",
                                              run.task.operand(name)->dataset.address(), second[n],
                                              fmt::join(at, ", ")));
    }
  }
};

template <class T>
StepSummary step_head(PathRun& run, Index problem) {
  const PathTask& task = run.task;
  StepSummary found;
  run.in_panels(problem, found, [&](const PathPanel& panel, PathPart& part) {
    PanelStep<T> data(run, panel);
    Skeleton skeleton;
    if (task.has_skeleton()) {
      skeleton = run.skeleton<T>(panel, data.matrices.wq, data.matrices.wk);
      run.require_skeleton<T>(panel, skeleton, data.matrices.wq, data.matrices.wk);
      run.put_skeleton(part, panel, skeleton);
    }
    run.report.compute([&] {
      found.add(step(task.step, skeleton, data.matrices, run.arguments.threads), panel.first);
    });
    run.put(part, "wq", panel, std::move(data.wq));
    run.put(part, "wk", panel, std::move(data.wk));
    for (const std::string& moment : moment_parts(task.step)) {
      run.put(part, state_name(task.step.optimizer, moment), panel,
              std::move(moment == "m" ? data.first : data.second));
    }
  });
  return found;
}

Json head_json(const Shape& index, const StepSummary& found) {
  Json singular = Json::array();
  for (const SingularColumn& column : found.singular) {
    singular.push_back({{"column", column.col}, {"ratio", column.ratio}});
  }
  return {{"index", index},
          {"ratio", ratios_json(found)},
          {"inconsistency", found.inconsistency},
          {"singular", std::move(singular)}};
}

std::string singular_text(const PathTask& task, Index problem, const StepSummary& found) {
  const SingularColumn& column = found.singular.front();
  const double ratio = std::isnan(column.ratio) ? std::abs(column.ratio) : column.ratio;
  return fmt::format(
      "{}: column {} has ratio R = {:.3g}; in {} of {} columns R is below {} (--min-ratio) or not "
      "finite",
      task.place("wq", problem), column.col, ratio, found.singular.size(), task.input.columns,
      task.step.min_ratio);
}

void report_step(const PathTask& task, const StepSummary& all, const Json& heads,
                 cli::Report& report) {
  Json& result = report.result();
  result["optimizer"] = optimizer_name(task.step.optimizer);
  if (keeps_moments(task.step.optimizer)) result["step"] = task.step.number;
  if (!task.has_skeleton()) return;
  result["singular"] = all.singular.size();
  result["ratio"] = ratios_json(all);
  result["inconsistency"] = all.inconsistency;
  result["heads"] = heads;
}

void create_step_results(PathRun& run) {
  const PathTask& task = run.task;
  run.create("wq", run.type());
  run.create("wk", run.type());
  if (task.has_skeleton()) {
    run.create("skeleton_q", DType::i32);
    run.create("skeleton_k", DType::i32);
  }
  for (const std::string& moment : moment_parts(task.step)) {
    run.create(state_name(task.step.optimizer, moment), run.type());
  }
  if (!keeps_moments(task.step.optimizer)) return;
  run.write_once(state_name(task.step.optimizer, "step"), DType::i64, {}, &task.step.number);
}

}  // namespace

std::string rescale_weights(PathRun& run) {
  Json& list = run.report.result()["rescaled"];
  list = Json::array();
  std::vector<RescaledRows> present;
  for (const RescaledRows& rescaled : rescaled_datasets()) {
    if (run.task.operand(rescaled.name) == nullptr) continue;
    run.create(rescaled.name, run.type());
    list.push_back(rescaled.name);
    present.push_back(rescaled);
  }
  run.for_each_problem([&](Index problem) {
    for (const RescaledRows& rescaled : present) {
      run.task.f64 ? rescale_rows<double>(run, problem, rescaled)
                   : rescale_rows<float>(run, problem, rescaled);
    }
  });
  return "columns rescaled";
}

std::string start_weights(PathRun& run) {
  for (const char* name : {"wq", "wk"}) run.create(name, run.type());
  for (const char* name : {"skeleton_q", "skeleton_k"}) run.create(name, DType::i32);
  run.for_each_problem([&](Index problem) {
    run.task.f64 ? start_head<double>(run, problem) : start_head<float>(run, problem);
  });
  return "weights of the skeleton set to 1, skeleton " + rule_name(run.task.rule);
}

std::string step_weights(PathRun& run) {
  const PathTask& task = run.task;
  create_step_results(run);
  StepSummary all;
  Json heads = Json::array();
  run.for_each_problem([&](Index problem) {
    const StepSummary found =
        task.f64 ? step_head<double>(run, problem) : step_head<float>(run, problem);
    all.add(found, 0);
    if (!task.has_skeleton()) return;
    heads.push_back(head_json(unravel(problem, task.input.leading), found));
    if (found.singular.empty()) return;
    const std::string text = singular_text(task, problem, found);
    if (task.stops) {
      report_step(task, all, heads, run.report);
      throw Error(Failure::numerical, text, singular_hint(task.rule));
    }
    run.report.warn_of_problem(problem, text + ": " + fate_text(task.step, found));
  });
  report_step(task, all, heads, run.report);
  const double limit = task.f64 ? inconsistent<double> : inconsistent<float>;
  if (all.inconsistency > limit) {
    run.report.warn_of_largest(
        "inconsistency", all.inconsistency,
        fmt::format("the gradients are not those of a loss that depends only on the scores: sums "
                    "of grad_wq wq and of grad_wk wk differ by {:.2g} of their size",
                    all.inconsistency));
  }
  return step_text(task.step, all, "columns");
}

}  // namespace attn::tools
