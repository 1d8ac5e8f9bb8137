#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/words.hpp"
#include "common/tables/convergence_words.hpp"
#include "reports/collapse_report.hpp"
#include "reports/distribution.hpp"

namespace attn::tools {
using Json = nlohmann::ordered_json;

cli::Outcome report_simulation(const SimulationFigures& figures, cli::Report& report) {
  const PointHeading& heading = figures.heading;
  const std::vector<SchemeRuns>& runs = figures.runs;
  const Index times = heading.steps + 1;
  const bool many = heading.sets > 1;
  Json& result = report.result();
  result["sets"] = heading.sets;
  result["points"] = heading.points;
  result["dimension"] = heading.dimension;
  result["clusters"] = figures.clusters;
  result["labels"] = figures.labels;
  std::string text = fmt::format("{:<8} {:>5} {:>9}", "scheme", "step", "distance");
  if (many) text += fmt::format(" {:>9} {:>9}", "least", "most");
  text += fmt::format(" {:>9} {:>9}", "spread", "modes");
  text += many ? fmt::format(" {:>8}\n", "merged") : "\n";
  cli::Outcome outcome;
  std::vector<std::string> ends;
  for (std::size_t k = 0; k < runs.size(); ++k) {
    const SchemeRuns& run = runs[k];
    Json& json = result["schemes"][figures.names[k]];
    json["status"] = status_name(run.totals.worst.status);
    add_convergence(run.totals.worst.convergence, json);
    json["iterations"] = run.totals.worst.iterations;
    json["steps"] = Json::array();
    for (Index step = 0; step < times; ++step) {
      const Distribution distance = numbers_of_step(run.distance, times, step);
      const Distribution spread = numbers_of_step(run.spread, times, step);
      const Distribution modes = numbers_of_step(run.modes, times, step);
      const Index merged = distance.below(figures.merged);
      json["steps"].push_back({{"step", step},
                               {"centre_distance", range_json(distance)},
                               {"spread", range_json(spread)},
                               {"modes", range_json(modes)},
                               {"merged", merged}});
      const Distribution likelihood = numbers_of_step(run.log_likelihood, times, step);
      if (!std::isnan(likelihood.median())) {
        json["steps"].back()["log_likelihood"] = range_json(likelihood);
      }
      if (is_shown(step, times)) {
        text += fmt::format("{:<8} {:>5}", step == 0 ? figures.names[k] : "", step);
        text += figure_text(distance.median());
        if (many) text += figure_text(distance.min()) + figure_text(distance.max());
        text += figure_text(spread.median()) + figure_text(modes.median());
        text += many ? fmt::format(" {:>8}\n", merged) : "\n";
      }
      if (step + 1 == times) {
        ends.push_back(std::isnan(distance.median())
                           ? figures.names[k]
                           : fmt::format("{} {:.4g}", figures.names[k], distance.median()));
        if (many) ends.back() += fmt::format(" ({} merged)", merged);
      }
    }
    if (run.totals.worst.status != SolveStatus::not_converged) continue;
    report.status("not_converged");
    report.warn_of_whole(figures.names[k] + " did not converge in some step" +
                         convergence_words(run.totals.worst.convergence, "--iterations"));
    outcome.status = 1;
  }
  report.print(text);
  const bool one = figures.clusters == 1;
  outcome.summary =
      fmt::format("{}, {}, {}: {}{}{}", heading.text, cli::counted(figures.clusters, "cluster"),
                  cli::counted(heading.steps, "step"), one ? "" : "centres end ",
                  fmt::join(ends, ", "), one ? "" : " apart");
  return outcome;
}

}  // namespace attn::tools
