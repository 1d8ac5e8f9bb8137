#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "cli/words.hpp"
#include "common/frame/bundles.hpp"
#include "common/runs/restart.hpp"
#include "head/operand.hpp"
#include "mode_collapse_sim/collapse_em.hpp"
#include "mode_collapse_sim/collapse_output.hpp"

namespace attn::tools {
namespace {

using collapse::Priors;

const std::vector<std::string> em_verb = {"em"};

const std::vector<std::string> em_results = {"x",        "label",  "log_likelihood",
                                             "variance", "centre", "prior"};

Priors priors_of(const std::string& word) {
  if (word == "fixed") return Priors::fixed;
  return word == "estimated" ? Priors::estimated : Priors::dnas;
}

}  // namespace

EmTask::EmTask(const cli::Arguments& arguments, const io::InputBundle* input)
    : sets(arguments, input, false),
      steps(arguments.integer("steps").value_or(20)),
      variance(arguments.numbers("model-variance")),
      start(arguments.points("start")),
      emitted(emitted_of(arguments, em_results)) {
  if (arguments.f64 == false) {
    throw Error(Failure::usage, "em computes in float64, --precision is f32");
  }
  sets.f64 = true;
  options.priors = priors_of(arguments.text("priors"));
  options.estimates_variance = arguments.given("estimate-variance");
  options.min_variance = arguments.number("min-variance").value();
  if (arguments.given("min-variance") && !options.estimates_variance) {
    throw Error(Failure::usage, "--min-variance requires --estimate-variance");
  }
  const double least = *std::min_element(variance.begin(), variance.end());
  if (options.estimates_variance && least < options.min_variance) {
    throw Error(Failure::usage, fmt::format("--model-variance is {}, below --min-variance {}",
                                            least, options.min_variance));
  }
  find_start(input);
  set_variances(arguments.text("estimate-variance"));
}

void EmTask::find_start(const io::InputBundle* input) {
  components = sets.points;
  if (!start.empty()) {
    components = static_cast<Index>(start.size());
    if (static_cast<Index>(start.front().size()) != sets.dimension) {
      throw Error(Failure::usage,
                  fmt::format("--start has points of {}, x has {}",
                              cli::counted(start.front().size(), "coordinate"), sets.dimension));
    }
    return;
  }
  if (input == nullptr || !input->has("start")) return;
  stored = input->dataset("start");
  require_vectors(*stored, "(components, coordinates)");
  const Shape& shape = stored->shape();
  components = shape[shape.size() - 2];
  const Shape own = leading_axes(shape, 2);
  if (shape.back() != sets.dimension || (!own.empty() && own != sets.leading)) {
    const std::string points = fmt::format("M, {})", sets.dimension);
    const std::string all = sets.leading.empty()
                                ? ""
                                : fmt::format(" or ({}, {}", fmt::join(sets.leading, ", "), points);
    throw Error(Failure::input, fmt::format("{} has the shape {}, expected ({}{}",
                                            stored->address(), to_string(shape), points, all));
  }
}

void EmTask::set_variances(const std::string& estimated) {
  const auto count = static_cast<std::size_t>(components);
  if (variance.size() > 1 && variance.size() != count) {
    throw Error(Failure::usage,
                fmt::format("--model-variance has {}, expected one, or one for each of {}",
                            cli::counted(variance.size(), "number"),
                            cli::counted(components, "component")));
  }
  if (variance.size() > 1 && options.estimates_variance && estimated != "each") {
    throw Error(Failure::usage,
                "several --model-variance require --estimate-variance=each, or none estimated");
  }
  if (estimated == "each") variance.resize(count, variance.front());
  if (own_variances() && options.priors == Priors::dnas) {
    throw Error(Failure::usage, "--priors dnas requires one variance for all components");
  }
}

std::string EmTask::priors() const {
  switch (options.priors) {
    case Priors::fixed:
      return "fixed";
    case Priors::estimated:
      return "estimated";
    case Priors::dnas:
      return "dnas";
  }
  return "";
}

collapse::MixtureViews<double> EmMixture::views() {
  const Index components = std::ssize(log_prior);
  const Shape own = variance.size() > 1 ? Shape{components} : Shape{};
  return {{centre.data(), {components, std::ssize(centre) / components}},
          {log_prior.data(), {components}},
          {variance.data(), own}};
}

EmMixture EmTask::first(Index set, const double* points) const {
  EmMixture mixture;
  mixture.centre.resize(static_cast<std::size_t>(components * sets.dimension));
  mixture.variance = variance;
  mixture.log_prior.assign(static_cast<std::size_t>(components),
                           -std::log(static_cast<double>(components)));
  if (stored) {
    const bool by_set = stored->shape().size() > 2;
    const Shape at = by_set ? unravel(set, sets.leading) : Shape{};
    const Shape from = join(at, {0, 0});
    const Shape count = join(Shape(at.size(), 1), {components, sets.dimension});
    stored->read(from, count, mixture.centre.data());
    require_finite(*stored, from, count, mixture.centre.data());
  } else if (!start.empty()) {
    double* to = mixture.centre.data();
    for (const std::vector<double>& point : start) to = std::copy(point.begin(), point.end(), to);
  } else {
    std::copy_n(points, mixture.centre.size(), mixture.centre.data());
  }
  return mixture;
}

collapse::MixturePlan EmTask::steps_plan(int threads) const {
  return collapse::MixturePlan({sets.points, sets.dimension}, {components, sets.dimension}, options,
                               threads);
}

PointPlan EmTask::plan(const cli::Arguments& arguments) const {
  for (const ArraySource& dataset : sets.datasets()) {
    require_readable(dataset, arguments.memory);
  }
  if (stored) require_readable(*stored, arguments.memory);
  constexpr auto number = static_cast<std::int64_t>(sizeof(double));
  // The vectors of figures grow one element at a time.
  const double figures =
      6.0 * static_cast<double>(steps + 1) * static_cast<double>(sets.own_sets());
  const auto kept =
      static_cast<std::int64_t>(std::min(static_cast<double>(most_bytes), figures * number));
  const Index d = sets.dimension;
  // A checkpoint keeps the mixture of each step, and a copy as bytes.
  const double mixtures = checkpoints(arguments)
                              ? 2.0 * static_cast<double>(steps + 1) *
                                    static_cast<double>(components) * static_cast<double>(d + 2)
                              : 0;
  const auto own =
      static_cast<std::int64_t>(std::min(static_cast<double>(most_bytes), mixtures * number));
  return plan_points(
      sets.own_sets(), std::max(sets.points, components), kept,
      [&](int threads) {
        return own + number * (sets.points * d + components * (3 * d + 6)) +
               steps_plan(threads).workspace_bytes();
      },
      arguments.threads, arguments.memory,
      sets.text() + " with " + cli::counted(components, "component") + " over " +
          cli::counted(steps, "step"));
}

void declare_em(cli::Declaration& d) {
  using Range = cli::Declaration::Range;
  d.section("em");
  d.points("start", "POINTS", "Initial centres of the M components.");
  d.default_words("the dataset start (M, d), else every point, as in self-attention");
  d.only_with(em_verb);
  d.choice("priors", {"fixed", "estimated", "dnas"},
           "Priors of the components. fixed: equal. estimated: by EM. dnas: proportional to "
           "exp(|q|^2/(2 variance)) in each step, which makes the steps those of iterated dnas.",
           "fixed");
  d.only_with(em_verb);
  d.numbers("model-variance", "S,...",
            "Initial variance: one for all components, or one for each of them.", Range::positive(),
            {1.0});
  d.only_with(em_verb);
  d.optional_choice("estimate-variance", {"shared", "each"},
                    "Estimates the variance in each step: one for all components (shared, or no "
                    "word), or one for each.");
  d.only_with(em_verb);
  d.number("min-variance", "S", "Lower bound of estimated variances.", Range::positive(), 1e-6);
  d.only_with(em_verb);
}

void report_em_cost(const cli::Arguments& arguments, const EmTask& task, cli::Report& report) {
  const PointPlan plan = task.plan(arguments);
  const PointSets& sets = task.sets;
  const auto count = static_cast<double>(sets.own_sets());
  const auto moments = static_cast<double>(task.steps + 1);
  const auto n = static_cast<double>(sets.points);
  const auto d = static_cast<double>(sets.dimension);
  const auto m = static_cast<double>(task.components);
  // Squared differences, the means, and the differences again for a variance.
  const double per_pair = 3 * d + 2 * d + (task.options.estimates_variance ? 6 * d : 0);
  const double flops = count * moments * n * m * per_pair;
  double numbers = moments * (1 + static_cast<double>(task.variance.size()));
  if (task.emits("centre")) numbers += moments * m * d;
  if (task.emits("prior")) numbers += moments * m;
  numbers *= count;
  if (sets.drawn() && task.emits("x")) numbers += count * n * d;
  if (sets.drawn() && task.emits("label")) numbers += n;
  report_points_cost(
      fmt::format("{}, {}, {}", sets.text(), cli::counted(task.components, "component"),
                  cli::counted(task.steps, "step")),
      plan, 8 * numbers, flops, report);
}

}  // namespace attn::tools
