#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/words.hpp"
#include "reports/collapse_report.hpp"
#include "reports/distribution.hpp"

namespace attn::tools {
namespace {

// The table of steps as text, and as JSON.
std::string steps_of(const EmRuns& runs, Index times, nlohmann::ordered_json& json) {
  using Column = std::pair<std::string, const std::vector<double>*>;
  std::vector<Column> variances = {{"variance", &runs.variance}};
  if (!runs.largest_variance.empty()) {
    variances = {{"least variance", &runs.variance}, {"largest variance", &runs.largest_variance}};
  }
  std::string text = fmt::format("{:>5} {:>15}", "step", "log-likelihood");
  for (const auto& [name, numbers] : variances) text += fmt::format(" {:>10}", name);
  text += '\n';
  json = nlohmann::ordered_json::array();
  for (Index step = 0; step < times; ++step) {
    const Distribution likelihood = numbers_of_step(runs.log_likelihood, times, step);
    nlohmann::ordered_json figures = {{"step", step}, {"log_likelihood", range_json(likelihood)}};
    std::string line = fmt::format("{:>5} {:>15.8g}", step, likelihood.median());
    for (const auto& [name, numbers] : variances) {
      const Distribution variance = numbers_of_step(*numbers, times, step);
      std::string member = name;
      std::replace(member.begin(), member.end(), ' ', '_');
      figures[member] = range_json(variance);
      line += fmt::format(" {:>{}}", figure_text(variance.median()),
                          std::max<std::size_t>(10, name.size()));
    }
    json.push_back(std::move(figures));
    if (is_shown(step, times)) text += line + '\n';
  }
  return text;
}

}  // namespace

cli::Outcome report_em(const EmFigures& figures, cli::Report& report) {
  const PointHeading& heading = figures.heading;
  const EmRuns& runs = figures.runs;
  const Index times = heading.steps + 1;
  const Index sets = heading.sets;
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
  auto& result = report.result();
  result["sets"] = sets;
  result["points"] = heading.points;
  result["dimension"] = heading.dimension;
  result["components"] = figures.components;
  result["priors"] = figures.priors;
  result["falls"] = falls;
  result["largest_fall"] = fall;
  result["largest_relative_fall"] = relative;
  result["never_falls"] = falls == 0;
  result["sets_at_min_variance"] = runs.floored;
  result["empty_components"] = runs.empty;
  if (!figures.proven) result["dnas_error"] = runs.dnas_error;
  report.print(steps_of(runs, times, result["steps"]));
  cli::Outcome outcome;
  outcome.summary = fmt::format(
      "{}, {}, {}: the likelihood {}", heading.text, cli::counted(figures.components, "component"),
      cli::counted(heading.steps, "step"), falls == 0 ? "never falls" : "falls");
  if (falls > 0)
    outcome.summary += fmt::format(" {}, by {:.3g} at most", cli::counted(falls, "time"), fall);
  if (runs.floored > 0) {
    report.warn_of_whole(fmt::format("--min-variance keeps the variance of {} from falling further",
                                     cli::counted(runs.floored, "set")));
  }
  if (runs.empty > 0) {
    report.warn_of_whole("up to " + cli::counted(runs.empty, "component has", "components have") +
                         " no share of any point");
  }
  const bool is_dnas = runs.dnas_error <= 1;
  if (!is_dnas) outcome.summary += ", and its first step differs from dnas";
  if ((figures.proven && falls > 0) || !is_dnas) {
    report.status("no");
    outcome.status = 1;
  }
  return outcome;
}

}  // namespace attn::tools
