#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "mode_collapse_sim/collapse_em.hpp"
#include "mode_collapse_sim/step_figures.hpp"

namespace attn::tools {

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
  double numbers = 2 * moments;
  if (task.emits("centre")) numbers += moments * m * d;
  if (task.emits("prior")) numbers += moments * m;
  numbers *= count;
  if (sets.drawn() && task.emits("x")) numbers += count * n * d;
  if (sets.drawn() && task.emits("label")) numbers += n;
  report_points_cost(
      fmt::format("{}, {} components, {} steps", sets.text(), task.components, task.steps), plan,
      8 * numbers, flops, report);
}

cli::Outcome report_em(const EmTask& task, const EmRuns& runs, cli::Report& report) {
  const Index times = task.steps + 1;
  const Index sets = task.sets.own_sets();
  Index falls = 0;
  double fall = 0;
  double relative = 0;
  for (Index n = 0; n < sets * times; ++n) {
    if (n % times == 0) continue;
    const double before = runs.log_likelihood[static_cast<std::size_t>(n - 1)];
    const double down = before - runs.log_likelihood[static_cast<std::size_t>(n)];
    const double part = down / std::max(1.0, std::abs(before));
    // A NaN counts as a fall.
    falls += part <= most_fall ? 0 : 1;
    fall = down <= fall ? fall : down;
    relative = part <= relative ? relative : part;
  }
  const bool proven = task.options.priors != collapse::Priors::dnas;
  auto& result = report.result();
  result["sets"] = sets;
  result["points"] = task.sets.points;
  result["dimension"] = task.sets.dimension;
  result["components"] = task.components;
  result["priors"] = task.priors();
  result["falls"] = falls;
  result["largest_fall"] = fall;
  result["largest_relative_fall"] = relative;
  result["never_falls"] = falls == 0;
  result["sets_at_min_variance"] = runs.floored;
  result["empty_components"] = runs.empty;
  if (!proven) result["dnas_error"] = runs.dnas_error;
  result["steps"] = nlohmann::ordered_json::array();
  std::string text = fmt::format("{:>5} {:>15} {:>10}\n", "step", "log-likelihood", "variance");
  for (Index step = 0; step < times; ++step) {
    const StepFigures likelihood(runs.log_likelihood, times, step);
    const StepFigures variance(runs.variance, times, step);
    result["steps"].push_back(
        {{"step", step}, {"log_likelihood", likelihood.json()}, {"variance", variance.json()}});
    if (!is_shown(step, times)) continue;
    text +=
        fmt::format("{:>5} {:>15.8g} {}\n", step, likelihood.median, figure_text(variance.median));
  }
  report.print(text);
  cli::Outcome outcome;
  outcome.summary = fmt::format("{}, {} components, {} steps: the likelihood {}", task.sets.text(),
                                task.components, task.steps, falls == 0 ? "never falls" : "falls");
  if (falls > 0) outcome.summary += fmt::format(" {} times, by {:.3g} at most", falls, fall);
  if (runs.floored > 0) {
    report.warn(fmt::format("--min-variance keeps the variance of {} sets from falling further",
                            runs.floored));
  }
  if (runs.empty > 0) {
    report.warn(fmt::format("up to {} components have no share of any point", runs.empty));
  }
  const bool is_dnas = runs.dnas_error <= 1;
  if (!is_dnas) outcome.summary += ", and its first step differs from dnas";
  if ((proven && falls > 0) || !is_dnas) {
    report.status("no");
    outcome.status = 1;
  }
  return outcome;
}

}  // namespace attn::tools
