#include "lambda_solve/dual_report.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/bundles.hpp"
#include "common/convergence_words.hpp"
#include "stats/summary.hpp"
#include "tensor/error_fall.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr double missing = std::numeric_limits<double>::quiet_NaN();

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? missing : sum / static_cast<double>(values.size());
}

Json distribution(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  Json json;
  json["mean"] = mean_of(values);
  json["median"] = quantile(values, 0.5);
  json["min"] = quantile(values, 0);
  json["max"] = quantile(values, 1);
  Json& quantiles = json["quantiles"];
  for (const double probability : {0.05, 0.25, 0.5, 0.75, 0.95}) {
    quantiles[fmt::format("{}", probability)] = quantile(values, probability);
  }
  return json;
}

double mean_iterations(const DualHead& head) {
  return head.problems() > 0
             ? static_cast<double>(head.iterations) / static_cast<double>(head.problems())
             : 0;
}

Json figures(const DualHead& head) {
  Json json;
  json["problems"] = head.problems();
  json["converged"] = head.converged;
  add_convergence(head.convergence, json);
  json["empty"] = head.empty;
  json["max_gap"] = head.max_gap;
  json["max_relative_gap"] = head.max_relative_gap;
  json["max_gradient_norm"] = head.max_gradient_norm;
  json["max_certificate_error"] = head.max_certificate_error;
  json["iterations"] = {{"max", head.max_iterations}, {"mean", mean_iterations(head)}};
  json["relative_deviation"] = distribution(head.relative_deviation);
  if (!head.out_deviation.empty()) json["out_deviation"] = distribution(head.out_deviation);
  return json;
}

std::string line(const std::string& name, const DualHead& head) {
  std::vector<double> sorted = head.relative_deviation;
  std::sort(sorted.begin(), sorted.end());
  std::string text = fmt::format("{:<10}", name);
  for (const double value : {mean_of(sorted), quantile(sorted, 0.05), quantile(sorted, 0.5),
                             quantile(sorted, 0.95), quantile(sorted, 1)}) {
    // No query of the head has a template.
    text += std::isnan(value) ? fmt::format(" {:>8}", "-") : fmt::format(" {:>8.4f}", value);
  }
  if (!head.out_deviation.empty()) {
    text += fmt::format(" {:>8.4f}", mean_of(head.out_deviation));
  }
  return text + fmt::format(" {:>10.2g} {:>5}\n", head.max_gradient_norm, head.max_iterations);
}

}  // namespace

void DualHead::add(const DualHead& more) {
  queries += more.queries;
  converged += more.converged;
  empty += more.empty;
  max_gap = std::max(max_gap, more.max_gap);
  max_relative_gap = std::max(max_relative_gap, more.max_relative_gap);
  max_gradient_norm = std::max(max_gradient_norm, more.max_gradient_norm);
  max_certificate_error = std::max(max_certificate_error, more.max_certificate_error);
  max_iterations = std::max(max_iterations, more.max_iterations);
  iterations += more.iterations;
  convergence = slower(convergence, more.convergence);
  relative_deviation.insert(relative_deviation.end(), more.relative_deviation.begin(),
                            more.relative_deviation.end());
  out_deviation.insert(out_deviation.end(), more.out_deviation.begin(), more.out_deviation.end());
}

void report_dual(const DualTask& task, const std::vector<DualHead>& heads, const std::string& group,
                 cli::Report& report) {
  DualHead all;
  for (const DualHead& head : heads) all.add(head);
  Json& result = report.result();
  result = figures(all);
  result["queries"] = task.input.queries;
  result["templates"] = task.input.keys;
  result["axes"] = task.axes();
  Json& list = result["heads"];
  list = Json::array();
  std::string text = group.empty() ? "" : group + "\n";
  text += fmt::format("{:<10} {:>8} {:>8} {:>8} {:>8} {:>8}", "deviation", "mean", "5%", "50%",
                      "95%", "max");
  if (!all.out_deviation.empty()) text += fmt::format(" {:>8}", "out");
  text += fmt::format(" {:>10} {:>5}\n", "gradient", "steps");
  for (std::size_t n = 0; n < heads.size(); ++n) {
    const Shape index = unravel(static_cast<Index>(n), task.input.leading);
    Json entry;
    entry["index"] = index;
    entry.update(figures(heads[n]));
    list.push_back(std::move(entry));
    text += line(index.empty() ? "" : fmt::format("{}", fmt::join(index, ",")), heads[n]);
  }
  if (heads.size() > 1) text += line("all", all);
  report.print(text + (group.empty() ? "" : "\n"));
}

cli::Outcome conclude_dual(const Shape& shape, const DualHead& all, Index heads,
                           const GroupReport& groups, bool each, cli::Report& report) {
  cli::Outcome outcome;
  const bool converged = all.converged == all.problems();
  if (each) {
    groups.write(report);
    // Includes the figures of each group.
    Json total = figures(all);
    for (auto& [name, value] : total.items()) report.result()[name] = value;
    outcome.summary =
        fmt::format("{} problems of {} heads in {} groups", all.problems(), heads, groups.size());
  } else {
    report.result() = groups.last();
    outcome.summary = fmt::format("{} problems, {}", all.problems(), times(shape));
  }
  if (all.problems() > 0) {
    outcome.summary += fmt::format(", gap at most {:.2g}, relative deviation {:.3g} on average",
                                   all.max_relative_gap, mean_of(all.relative_deviation));
  }
  if (all.empty > 0) outcome.summary += fmt::format(", {} queries have no template", all.empty);
  if (!converged) {
    outcome.summary += fmt::format(", {} not converged", all.problems() - all.converged) +
                       convergence_words(all.convergence, "max-iterations");
    report.status("not_converged");
    outcome.status = 1;
  }
  return outcome;
}

}  // namespace attn::tools
