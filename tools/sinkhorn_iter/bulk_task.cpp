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
  for (const std::string& name : wanted) {
    if (name.find("grad_") == std::string::npos && name != "barycentre") {
      emitted.insert(name);
    } else if (arguments.given("emit")) {
      throw Error(Failure::usage, fmt::format("--emit {} has no effect with bulk", name));
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
  const auto is_f64 = [](const ArraySource& one) { return one.dtype() == DType::f64; };
  f64 = arguments.f64.value_or(is_f64(scores));
}

std::vector<ArraySource> BulkTask::datasets() const {
  std::vector<ArraySource> all = {scores};
  if (a) all.push_back(*a);
  if (b) all.push_back(*b);
  return all;
}

RunEffect BulkTask::effect(const cli::Arguments& arguments) const {
  RunEffect effect;
  effect.tool = arguments.tool;
  for (const std::string& name : emitted) effect.results[name] = {"scores", "a", "b"};
  Settings& settings = effect.settings;
  settings["attn_scheme"] = "sinkhorn";
  settings["attn_source"] = "scores";
  settings["attn_precision"] = f64 ? "f64" : "f32";
  settings["attn_iterations"] = std::int64_t{iterations};
  if (a) settings["attn_marginals"] = "given";
  effect.attributes = settings;
  settings["verb"] = arguments.verb;
  return effect;
}

void BulkTask::report_params(cli::Report& report) const {
  auto& params = report.params();
  params["iterations"] = iterations;
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
  // Scores and plan; marginals and potentials; the error, and the gains of a chain, twice.
  return 2 * rows * cols * element + 2 * (rows + cols) * number + 7 * number;
}

}  // namespace attn::tools
