#include "reports/dual_report.hpp"
#include "cli/words.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/words.hpp"
#include "common/frame/bundles.hpp"
#include "common/tables/convergence_words.hpp"
#include "common/tables/table_options.hpp"
#include "reports/sorted_numbers.hpp"
#include "stats/summary.hpp"
#include "tensor/error_fall.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr double missing = std::numeric_limits<double>::quiet_NaN();

Json distribution(std::vector<double> values) {
  sort_numbers(values);
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
  add_padding(head.padding, json);
  json["max_gap"] = head.max_gap;
  json["max_relative_gap"] = head.max_relative_gap;
  json["max_gradient_norm"] = head.max_gradient_norm;
  json["max_certificate_error"] = head.max_certificate_error;
  json["iterations"] = {{"max", head.max_iterations}, {"mean", mean_iterations(head)}};
  json["relative_deviation"] = distribution(head.relative_deviation);
  if (!head.out_deviation.empty()) json["out_deviation"] = distribution(head.out_deviation);
  if (!head.alpha.empty()) json["alpha"] = distribution(head.alpha);
  return json;
}

std::string line(const std::string& name, const DualHead& head) {
  std::string text = fmt::format("{:<10}", name) + quantiles_text(head.relative_deviation);
  if (!head.out_deviation.empty()) {
    text += fmt::format(" {:>8.4f}", mean_of(head.out_deviation));
  }
  return text + fmt::format(" {:>10.2g} {:>5}\n", head.max_gradient_norm, head.max_iterations);
}

Json average_json(const std::vector<double>& averaged) {
  return {{"queries", averaged.size()}, {"relative_deviation", distribution(averaged)}};
}

}  // namespace

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? missing : sum / static_cast<double>(values.size());
}

double quantile_of(std::vector<double> values, double probability) {
  sort_numbers(values);
  return quantile(values, probability);
}

std::string deviation_headings() {
  return fmt::format(" {:>8} {:>8} {:>8} {:>8} {:>8}", "mean", "5%", "50%", "95%", "max");
}

std::string quantiles_text(std::vector<double> values) {
  sort_numbers(values);
  std::string text;
  for (const double value : {mean_of(values), quantile(values, 0.05), quantile(values, 0.5),
                             quantile(values, 0.95), quantile(values, 1)}) {
    // No query of the head has a template.
    text += std::isnan(value) ? fmt::format(" {:>8}", "-") : fmt::format(" {:>8.4f}", value);
  }
  return text;
}

void DualHead::add(const DualHead& more) {
  queries += more.queries;
  converged += more.converged;
  empty += more.empty;
  padding.add(more.padding);
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
  alpha.insert(alpha.end(), more.alpha.begin(), more.alpha.end());
}

std::vector<double> mean_over_heads(const std::vector<DualHead>& heads, const Shape& leading) {
  std::vector<double> means;
  const std::size_t together = leading.empty() ? 1 : static_cast<std::size_t>(leading.back());
  for (std::size_t first = 0; first < heads.size(); first += together) {
    for (std::size_t query = 0; query < heads[first].by_query.size(); ++query) {
      double sum = 0;
      Index count = 0;
      for (std::size_t head = first; head < first + together; ++head) {
        const std::vector<double>& values = heads[head].by_query;
        if (query >= values.size() || std::isnan(values[query])) continue;
        const double value = values[query];
        sum += value;
        ++count;
      }
      if (count > 0) means.push_back(sum / static_cast<double>(count));
    }
  }
  return means;
}

void report_dual(const DualHeading& heading, const std::vector<DualHead>& heads,
                 const std::optional<std::vector<double>>& averaged, cli::Report& report) {
  DualHead all;
  for (const DualHead& head : heads) all.add(head);
  Json& result = report.result();
  result = figures(all);
  result["queries"] = heading.queries;
  result["templates"] = heading.keys;
  result["axes"] = heading.axes;
  result["template_scale"] = heading.template_scale;
  if (heading.radius) result["radius"] = *heading.radius;
  if (averaged) result["mean_over_heads"] = average_json(*averaged);
  Json& list = result["heads"];
  list = Json::array();
  for (std::size_t n = 0; n < heads.size(); ++n) {
    Json entry;
    entry["index"] = unravel(static_cast<Index>(n), heading.leading);
    entry.update(figures(heads[n]));
    list.push_back(std::move(entry));
  }
}

std::string dual_text(const DualHeading& heading, const std::vector<DualHead>& heads,
                      const std::optional<std::vector<double>>& averaged,
                      const std::string& label) {
  DualHead all;
  for (const DualHead& head : heads) all.add(head);
  const std::string penalty =
      heading.radius ? fmt::format("radius {:.6g}, alpha from {:.6g} to {:.6g}", *heading.radius,
                                   quantile_of(all.alpha, 0), quantile_of(all.alpha, 1))
                     : fmt::format("alpha {:.6g}", heading.alpha);
  std::string text = fmt::format("{}templates times {:.6g}, evidence times {:.6g}, {}\n",
                                 label.empty() ? "" : label + ": ", heading.template_scale,
                                 heading.evidence_scale, penalty);
  text += fmt::format("{:<10}", "deviation") + deviation_headings();
  if (!all.out_deviation.empty()) text += fmt::format(" {:>8}", "out");
  text += fmt::format(" {:>10} {:>5}\n", "gradient", "steps");
  for (std::size_t n = 0; n < heads.size(); ++n) {
    const Shape index = unravel(static_cast<Index>(n), heading.leading);
    text += line(index.empty() ? "" : fmt::format("{}", fmt::join(index, ",")), heads[n]);
  }
  if (heads.size() > 1) text += line("all", all);
  if (averaged) text += fmt::format("{:<10}{}\n", "mean head", quantiles_text(*averaged));
  return text + (label.empty() ? "" : "\n");
}

std::vector<TableColumn> dual_table_columns() {
  std::vector<TableColumn> columns = place_columns();
  columns.push_back({"alpha", false});
  columns.push_back({"radius", false});
  columns.push_back({"template_scale"});
  for (const char* const name : {"problems", "converged", "empty"})
    columns.push_back({name, false});
  columns.push_back({"deviation_mean"});
  for (const char* const name : {"deviation_min", "deviation_q05", "deviation_q25"}) {
    columns.push_back({name, false});
  }
  columns.push_back({"deviation_median"});
  columns.push_back({"deviation_q75", false});
  columns.push_back({"deviation_q95"});
  columns.push_back({"deviation_max"});
  columns.push_back({"out_deviation_mean"});
  for (const char* const name : {"max_gap", "max_relative_gap"}) columns.push_back({name, false});
  columns.push_back({"max_gradient_norm"});
  columns.push_back({"max_iterations"});
  columns.push_back({"mean_iterations", false});
  return columns;
}

std::vector<std::vector<Cell>> dual_table_rows(const DualHeading& heading,
                                               const SectionName& section,
                                               const std::vector<DualHead>& heads,
                                               const std::optional<std::vector<double>>& averaged) {
  std::vector<std::vector<Cell>> rows;
  const auto begin = [&](std::vector<Cell> place, const std::vector<Cell>& counts,
                         std::vector<double> deviations) {
    std::vector<Cell> row = std::move(place);
    row.push_back(heading.radius ? Cell() : Cell(heading.alpha));
    row.push_back(heading.radius ? Cell(*heading.radius) : Cell());
    row.emplace_back(heading.template_scale);
    row.insert(row.end(), counts.begin(), counts.end());
    sort_numbers(deviations);
    row.emplace_back(mean_of(deviations));
    for (const double probability : {0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0}) {
      row.emplace_back(quantile(deviations, probability));
    }
    return row;
  };
  for (std::size_t n = 0; n < heads.size(); ++n) {
    const DualHead& head = heads[n];
    std::vector<Cell> row = begin(
        place_cells(section.file, section.group, unravel(static_cast<Index>(n), heading.leading)),
        {head.problems(), head.converged, head.empty}, head.relative_deviation);
    std::vector<double> of_outputs = head.out_deviation;
    sort_numbers(of_outputs);  // in the order of the JSON's mean
    row.emplace_back(mean_of(of_outputs));
    row.emplace_back(head.max_gap);
    row.emplace_back(head.max_relative_gap);
    row.emplace_back(head.max_gradient_norm);
    row.emplace_back(head.max_iterations);
    row.emplace_back(mean_iterations(head));
    rows.push_back(std::move(row));
  }
  if (averaged) {
    std::vector<Cell> place = place_cells(section.file, section.group, {});
    place.back() = std::string("mean");
    rows.push_back(
        begin(std::move(place), {static_cast<Index>(averaged->size()), Cell(), Cell()}, *averaged));
    rows.back().resize(dual_table_columns().size());
  }
  return rows;
}

std::vector<std::pair<std::string, std::string>> dual_table_meanings() {
  return {
      {"file, group, batch, head",
       "the INPUT as given, the group in it, the index in all leading axes but the last, and in "
       "the last; with --average heads also a row \"mean\""},
      {"alpha, radius, template_scale",
       "alpha, or the radius in its place, and the factor of the templates"},
      {"problems, converged, empty",
       "the numbers of queries with a template, of converged queries, and of queries without a "
       "template"},
      {"deviation_mean, ...",
       "the relative deviations of the queries: mean and so on; deviation_q05 is a quantile"},
      {"out_deviation_mean", "the mean of out_deviation; empty without values"},
      {"max_gap, max_relative_gap, max_gradient_norm", "the largest values over the queries"},
      {"max_iterations, mean_iterations", "largest and mean number of Newton steps of a query"},
  };
}

cli::Outcome conclude_dual(const Shape& shape, const DualHead& all,
                           const std::optional<std::vector<double>>& averaged, Index heads,
                           const GroupReport& groups, bool several, cli::Report& report) {
  cli::Outcome outcome;
  const bool converged = all.converged == all.problems();
  if (several) {
    groups.write(report);
    // Includes the figures of each group.
    Json total = figures(all);
    for (auto& [name, value] : total.items()) report.result()[name] = value;
    if (averaged) report.result()["mean_over_heads"] = average_json(*averaged);
    outcome.summary =
        fmt::format("{} of {} in {}", cli::counted(all.problems(), "problem"),
                    cli::counted(heads, "head"), cli::counted(groups.size(), "group"));
  } else {
    report.result() = groups.last();
    outcome.summary = fmt::format("{}, {}", cli::counted(all.problems(), "problem"), times(shape));
  }
  if (all.problems() > 0) {
    outcome.summary += fmt::format(", gap at most {:.2g}, relative deviation {:.3g} on average",
                                   all.max_gap, mean_of(all.relative_deviation));
  }
  outcome.summary += padding_words(all.padding);
  if (all.empty > 0)
    outcome.summary += ", " + cli::counted(all.empty, "query has", "queries have") + " no template";
  if (!converged) {
    outcome.summary += fmt::format(", {} not converged", all.problems() - all.converged) +
                       convergence_words(all.convergence, "--max-iterations");
    report.status("not_converged");
    outcome.status = 1;
  }
  return outcome;
}

}  // namespace attn::tools
