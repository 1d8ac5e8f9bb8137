#include "sinkhorn_iter/bulk_task.hpp"

#include <cstdint>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "head/operand.hpp"

namespace attn::tools {
namespace {

constexpr Index longest_line = 64;

// a or b: one line for all problems, or one for each.
std::optional<ArraySource> marginal(const io::InputBundle& bundle, const char* name,
                                    const Shape& leading, Index length) {
  if (!bundle.has(name)) return std::nullopt;
  ArraySource found = bundle.dataset(name);
  require_floating(found);
  if (found.shape() != Shape{length} && found.shape() != join(leading, {length})) {
    throw Error(Failure::input, fmt::format("{} has shape {}, expected {} or {}", found.address(),
                                            to_string(found.shape()), to_string({length}),
                                            to_string(join(leading, {length}))));
  }
  return found;
}

}  // namespace

BulkTask::BulkTask(const cli::Arguments& arguments, io::InputBundle section)
    : bundle(std::move(section)), scores(bundle.dataset("scores")) {
  require_floating(scores);
  const Shape& shape = scores.shape();
  const auto axis = [&](std::size_t from_end) {
    return shape.size() < from_end ? 0 : shape[shape.size() - from_end];
  };
  rows = axis(2);
  cols = axis(1);
  if (rows < 1 || cols < 1 || rows > longest_line || cols > longest_line) {
    throw Error(Failure::input,
                fmt::format("{} has shape {}, expected (..., m, n) with m and n in [1, {}]",
                            scores.address(), to_string(shape), longest_line),
                "sinkhorn-iter without a verb solves larger problems");
  }
  input.leading = Shape(shape.begin(), shape.end() - 2);
  input.problems = element_count(input.leading);
  input.size = static_cast<double>(rows * cols);
  iterations = arguments.integer("iterations").value_or(20);
  const auto wanted = arguments.words_of("emit");
  rows_first = arguments.text("order") == "rows";
  eps = *arguments.number("eps");
  for (const std::string& name : wanted) {
    const bool is_potential = name == "row_potential" || name == "col_potential";
    const bool has_it = name == "plan" || name == "error" || name == "grad_scores";
    if (has_it || (is_potential && eps == 0)) {
      emitted.insert(name);
    } else if (arguments.given("emit")) {
      throw Error(Failure::usage, fmt::format("--emit {} has no effect with bulk{}", name,
                                              is_potential && eps > 0 ? " --eps" : ""));
    }
  }
  chained = arguments.flag("chain");
  if (chained) {
    if (input.leading.empty() || rows != cols) {
      throw Error(Failure::usage,
                  fmt::format("--chain multiplies square plans along the third axis from the end, "
                              "but {} has shape {}",
                              scores.address(), to_string(shape)));
    }
    emitted.insert("chain");
  }
  a = marginal(bundle, "a", input.leading, rows);
  b = marginal(bundle, "b", input.leading, cols);
  require_eps();
  take_gradient(arguments);
  const auto is_f64 = [](const ArraySource& one) { return one.dtype() == DType::f64; };
  f64 = arguments.f64.value_or(is_f64(scores) || (grad_plan && is_f64(*grad_plan)));
  if (!against) return;
  if (arguments.f64 == false) {
    throw Error(Failure::usage, "--against compares in float64, but --precision is f32");
  }
  f64 = true;
}

void BulkTask::require_eps() const {
  if (eps == 0) return;
  if (rows != cols) {
    throw Error(Failure::usage, fmt::format("--eps requires square problems, but {} has shape {}",
                                            scores.address(), to_string(scores.shape())));
  }
  for (const auto* marginal : {&a, &b}) {
    if (!*marginal) continue;
    throw Error(Failure::usage,
                fmt::format("--eps requires sums of 1, but there is {}", (*marginal)->address()));
  }
}

void BulkTask::take_gradient(const cli::Arguments& arguments) {
  if (arguments.given("gradient") && arguments.text("gradient") != "unrolled") {
    throw Error(Failure::usage, "bulk has gradients through its iterations only",
                "--gradient unrolled, or sinkhorn-iter without a verb");
  }
  if (arguments.given("against")) against.emplace(arguments, scores);
  const bool compares = against && against->grad_scores;
  if (!emits("grad_scores") && !compares) {
    if (!arguments.given("gradient")) return;
    throw Error(Failure::usage, "--gradient has no effect without --emit grad_scores");
  }
  if (!bundle.has("grad_plan")) {
    throw Error(Failure::usage,
                fmt::format("{}: there is no dataset grad_plan, the gradient of a number with "
                            "respect to the plan",
                            compares ? against->grad_scores->address() : "--emit grad_scores"),
                "-i grad_plan=FILE:/path");
  }
  for (const char* const name : {"grad_row_potential", "grad_col_potential"}) {
    if (!bundle.has(name)) continue;
    throw Error(Failure::usage,
                fmt::format("bulk has gradients through the plan only, but there is {}",
                            bundle.dataset(name).address()));
  }
  grad_plan = bundle.dataset("grad_plan");
  require_floating(*grad_plan);
  if (grad_plan->shape() == scores.shape()) return;
  throw Error(Failure::input,
              fmt::format("{} has shape {}, expected {}", grad_plan->address(),
                          to_string(grad_plan->shape()), to_string(scores.shape())));
}

std::vector<ArraySource> BulkTask::datasets() const {
  std::vector<ArraySource> all = {scores};
  if (a) all.push_back(*a);
  if (b) all.push_back(*b);
  if (grad_plan) all.push_back(*grad_plan);
  if (against && against->plan) all.push_back(*against->plan);
  if (against && against->grad_scores) all.push_back(*against->grad_scores);
  return all;
}

RunEffect BulkTask::effect(const cli::Arguments& arguments) const {
  RunEffect effect;
  effect.tool = arguments.tool;
  for (const std::string& name : emitted) effect.results[name] = {"scores", "a", "b"};
  if (emits("grad_scores")) effect.results["grad_scores"].insert("grad_plan");
  Settings& settings = effect.settings;
  settings["attn_scheme"] = "sinkhorn";
  settings["attn_source"] = "scores";
  settings["attn_precision"] = f64 ? "f64" : "f32";
  settings["attn_iterations"] = std::int64_t{iterations};
  if (a) settings["attn_marginals"] = "given";
  effect.attributes = settings;
  settings["verb"] = arguments.verb;
  if (!rows_first && eps == 0) return effect;
  // Later tools would make another plan from these attributes.
  for (auto& [name, value] : effect.attributes) value = {};
  settings["order"] = std::string(rows_first ? "rows" : "columns");
  settings["eps"] = eps;
  return effect;
}

void BulkTask::report_params(cli::Report& report) const {
  auto& params = report.params();
  params["iterations"] = iterations;
  params["order"] = rows_first ? "rows" : "columns";
  params["eps"] = eps;
  if (differentiates()) params["gradient"] = "unrolled";
  params["precision"] = f64 ? "f64" : "f32";
  params["emit"] = emitted;
}

ProblemUnits BulkTask::units() const {
  ProblemUnits units(input.problems);
  if (chained) {
    std::vector<Index> chain_of(static_cast<std::size_t>(input.problems));
    for (Index n = 0; n < input.problems; ++n) {
      chain_of[static_cast<std::size_t>(n)] = n / together();
    }
    units.sum("chain", chain_of);
  }
  return units;
}

std::vector<double> BulkTask::work() const {
  return std::vector<double>(static_cast<std::size_t>(input.problems), input.size);
}

std::int64_t BulkTask::problem_bytes() const {
  constexpr auto number = static_cast<std::int64_t>(sizeof(double));
  const auto element = f64 ? number : static_cast<std::int64_t>(sizeof(float));
  // Scores and plan, and their gradients, and what they are compared with; marginals and
  // potentials; the error, and the gains of a chain, twice.
  const Index matrices = (differentiates() ? 4 : 2) + (against ? 1 : 0);
  return matrices * rows * cols * element + 2 * (rows + cols) * number + 7 * number;
}

}  // namespace attn::tools
