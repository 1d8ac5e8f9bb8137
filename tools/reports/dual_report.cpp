#include "reports/dual_report.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/words.hpp"
#include "common/frame/bundles.hpp"
#include "common/tables/convergence_words.hpp"
#include "common/tables/table_options.hpp"
#include "reports/distribution.hpp"
#include "tensor/error_fall.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

Json distribution(const Distribution& values) {
  Json json = {{"mean", values.mean()},
               {"median", values.median()},
               {"min", values.min()},
               {"max", values.max()}};
  for (const double probability : {0.05, 0.25, 0.5, 0.75, 0.95}) {
    json["quantiles"][fmt::format("{}", probability)] = values.quantile(probability);
  }
  return json;
}

double mean_iterations(const DualHead& head) {
  return head.problems() > 0
             ? static_cast<double>(head.iterations) / static_cast<double>(head.problems())
             : 0;
}

// A row of --tsv: a head, or the means over the heads, which have no `head`.
struct DualRow {
  Index problems = 0;
  Distribution deviation;
  const DualHead* head = nullptr;
};

DualRow row_of(const DualHead& head) {
  return {head.problems(), Distribution(head.relative_deviation), &head};
}

const Figures<DualRow>& dual_figures() {
  const auto of_head = [](auto figure) {
    return [figure](const DualRow& row) {
      return row.head == nullptr ? Cell() : Cell(std::invoke(figure, *row.head));
    };
  };
  const auto quantile = [](double probability) {
    return [probability](const DualRow& row) { return row.deviation.quantile(probability); };
  };
  static const Figures<DualRow> all = {
      {"problems", [](const DualRow& row) { return row.problems; }, false},
      {"converged", of_head(&DualHead::converged), false},
      {"empty", of_head(&DualHead::empty), false},
      {"deviation_mean", [](const DualRow& row) { return row.deviation.mean(); }},
      {"deviation_min", quantile(0), false},
      {"deviation_q05", quantile(0.05), false},
      {"deviation_q25", quantile(0.25), false},
      {"deviation_median", quantile(0.5)},
      {"deviation_q75", quantile(0.75), false},
      {"deviation_q95", quantile(0.95)},
      {"deviation_max", quantile(1)},
      {"out_deviation_mean",
       of_head([](const DualHead& head) { return Distribution(head.out_deviation).mean(); })},
      {"max_gap", of_head(&DualHead::max_gap), false},
      {"max_relative_gap", of_head(&DualHead::max_relative_gap), false},
      {"max_gradient_norm", of_head(&DualHead::max_gradient_norm)},
      {"max_iterations", of_head(&DualHead::max_iterations)},
      {"mean_iterations", of_head(mean_iterations), false}};
  return all;
}

Json figures_json(const DualHead& head) {
  const DualRow row = row_of(head);
  Json json;
  add_members(dual_figures(), row, {"problems", "converged"}, json);
  add_convergence(head.convergence, json);
  add_members(dual_figures(), row, {"empty"}, json);
  add_padding(head.padding, json);
  add_members(dual_figures(), row, {"max_gap", "max_relative_gap", "max_gradient_norm"}, json);
  json["max_certificate_error"] = head.max_certificate_error;
  json["iterations"] = {{"max", head.max_iterations}, {"mean", mean_iterations(head)}};
  json["relative_deviation"] = distribution(row.deviation);
  if (!head.out_deviation.empty()) {
    json["out_deviation"] = distribution(Distribution(head.out_deviation));
  }
  if (!head.alpha.empty()) json["alpha"] = distribution(Distribution(head.alpha));
  return json;
}

std::string line(const std::string& name, const DualHead& head) {
  std::string text = fmt::format("{:<10}", name) + quantiles_text(head.relative_deviation);
  if (!head.out_deviation.empty()) {
    text += fmt::format(" {:>8.4f}", Distribution(head.out_deviation).mean());
  }
  return text + fmt::format(" {:>10.2g} {:>5}\n", head.max_gradient_norm, head.max_iterations);
}

Json average_json(const std::vector<double>& averaged) {
  return {{"queries", averaged.size()},
          {"relative_deviation", distribution(Distribution(averaged))}};
}

}  // namespace

std::string deviation_headings() {
  return fmt::format(" {:>8} {:>8} {:>8} {:>8} {:>8}", "mean", "5%", "50%", "95%", "max");
}

std::string quantiles_text(std::vector<double> values) {
  const Distribution all(std::move(values));
  std::string text;
  for (const double value :
       {all.mean(), all.quantile(0.05), all.median(), all.quantile(0.95), all.max()}) {
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
  result = figures_json(all);
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
    entry.update(figures_json(heads[n]));
    list.push_back(std::move(entry));
  }
}

std::string dual_text(const DualHeading& heading, const std::vector<DualHead>& heads,
                      const std::optional<std::vector<double>>& averaged,
                      const std::string& label) {
  DualHead all;
  for (const DualHead& head : heads) all.add(head);
  const Distribution alpha(all.alpha);
  const std::string penalty = heading.radius
                                  ? fmt::format("radius {:.6g}, alpha from {:.6g} to {:.6g}",
                                                *heading.radius, alpha.min(), alpha.max())
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
  columns.insert(columns.end(), {{"alpha", false}, {"radius", false}, {"template_scale"}});
  return columns_of(dual_figures(), std::move(columns));
}

std::vector<std::vector<Cell>> dual_table_rows(const DualHeading& heading,
                                               const SectionName& section,
                                               const std::vector<DualHead>& heads,
                                               const std::optional<std::vector<double>>& averaged) {
  std::vector<std::vector<Cell>> rows;
  const auto add = [&](std::vector<Cell> place, const DualRow& row) {
    place.push_back(heading.radius ? Cell() : Cell(heading.alpha));
    place.push_back(cell(heading.radius));
    place.emplace_back(heading.template_scale);
    rows.push_back(cells_of(dual_figures(), row, std::move(place)));
  };
  for (std::size_t n = 0; n < heads.size(); ++n) {
    const Shape index = unravel(static_cast<Index>(n), heading.leading);
    add(place_cells(section.file, section.group, index), row_of(heads[n]));
  }
  if (averaged) {
    std::vector<Cell> place = place_cells(section.file, section.group, {});
    place.back() = std::string("mean");
    add(std::move(place), {static_cast<Index>(averaged->size()), Distribution(*averaged)});
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
    Json total = figures_json(all);
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
    const double deviation = Distribution(all.relative_deviation).mean();
    outcome.summary += fmt::format(
        ", gap at most {:.2g}, relative deviation {:.3g} on average: attention is {} the exact "
        "solution",
        all.max_gap, deviation,
        deviation < 1 ? fmt::format("{:.2g}% off", 100 * deviation) : "far off");
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
