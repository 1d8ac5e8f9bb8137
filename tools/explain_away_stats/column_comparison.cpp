#include "explain_away_stats/column_comparison.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "cli/values.hpp"
#include "cli/words.hpp"
#include "common/tables/column_text.hpp"
#include "common/tables/table_options.hpp"
#include "reports/column_table.hpp"
#include "reports/head_grid.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t places_named = 5;

// The least column sum spans many decades; its changes are in these.
const std::string least_sum = "enough_min_c";

bool is_compared(const std::string& name) {
  const bool is_share = name.starts_with("enough_share_below_") || name.ends_with("_share");
  return is_share || name == least_sum || name == "entropy" || name == "max_c_per_query" ||
         std::count(sink_figure_names().begin(), sink_figure_names().end(), name) > 0;
}

Figures<SchemeSummaryOf> compared_figures(const ColumnSummaryOptions& options) {
  Figures<SchemeSummaryOf> figures;
  for (Figure<SchemeSummaryOf>& figure : column_figures(options)) {
    if (is_compared(figure.name)) figures.push_back(std::move(figure));
  }
  return figures;
}

std::optional<double> number_in(const Cell& cell) {
  const double* const value = std::get_if<double>(&cell);
  return value == nullptr || !std::isfinite(*value) ? std::nullopt : std::optional(*value);
}

double change_of(const std::string& figure, std::optional<double> base,
                 std::optional<double> value) {
  if (base == value) return 0;
  if (!base || !value) return std::numeric_limits<double>::infinity();
  return figure == least_sum ? std::log10(*value / *base) : *value - *base;
}

// The places of a column for the figure `name`, "" for all figures.
std::vector<std::optional<double>> thresholds_of(const std::string& text,
                                                 const Figures<SchemeSummaryOf>& figures) {
  std::vector<std::optional<double>> thresholds(figures.size());
  if (text.empty()) return thresholds;
  for (const std::string& entry : cli::split(text, ',')) {
    const std::size_t sign = entry.rfind('=');
    const bool is_for_all = sign == std::string::npos;
    const std::optional<double> limit = cli::to_number(is_for_all ? entry : entry.substr(sign + 1));
    if (!limit || *limit < 0) {
      throw Error(Failure::usage,
                  fmt::format("--threshold has {}, expected X or FIGURE=X with X >= 0", entry),
                  "--threshold entropy=0.1");
    }
    bool any = false;
    for (std::size_t n = 0; n < figures.size(); ++n) {
      if (!is_for_all && figures[n].name != entry.substr(0, sign)) continue;
      thresholds[n] = limit;
      any = true;
    }
    if (any) continue;
    std::vector<std::string> names;
    for (const auto& figure : figures) names.push_back(figure.name);
    throw Error(Failure::usage,
                fmt::format("--threshold has {}, which is no figure", entry.substr(0, sign)),
                fmt::format("there are {}", fmt::join(names, ", ")));
  }
  return thresholds;
}

std::string text_of(const std::optional<double>& value) {
  return value ? number(*value) : std::string("-");
}

std::string signed_text(double change) {
  if (!std::isfinite(change)) return "-";
  return (change > 0 ? "+" : "") + number(change);
}

Json json_of(const FigureChange& change) {
  Json json;
  json["base"] = change.base ? Json(*change.base) : Json();
  json["value"] = change.value ? Json(*change.value) : Json();
  json["change"] = change.change;
  return json;
}

}  // namespace

ColumnComparison::ColumnComparison(const cli::Arguments& arguments,
                                   const ColumnSummaryOptions& options)
    : against_(arguments.text("against")),
      epsilons_(options.sums.epsilons),
      figures_(compared_figures(options)),
      thresholds_(thresholds_of(arguments.text("threshold"), figures_)) {}

void ColumnComparison::add(const SectionName& section, const HeadAxes& axes,
                           const std::vector<std::string>& schemes, const ColumnSummaries& base,
                           const ColumnSummaries& summaries) {
  for (std::size_t n = 0; n < schemes.size(); ++n) {
    auto total = std::find_if(totals_.begin(), totals_.end(),
                              [&](const Total& of) { return of.scheme == schemes[n]; });
    if (total == totals_.end()) total = totals_.insert(totals_.end(), Total{schemes[n]});
    for (std::size_t head = 0; head < summaries.schemes[n].heads.size(); ++head) {
      const SchemeSummaryOf& before = base.schemes[n].heads[head];
      const SchemeSummaryOf& now = summaries.schemes[n].heads[head];
      total->keys += now.enough.keys;
      total->base_keys += before.enough.keys;
      if (!epsilons_.empty()) {
        total->explained += now.enough.explained_away.front().count;
        total->base_explained += before.enough.explained_away.front().count;
      }
      if (std::isfinite(now.mean_entropy) && std::isfinite(before.mean_entropy)) {
        total->entropy += now.mean_entropy;
        total->base_entropy += before.mean_entropy;
        ++total->heads;
      }
      for (std::size_t figure = 0; figure < figures_.size(); ++figure) {
        FigureChange of{sections_.size(), static_cast<Index>(head), schemes[n], figure};
        of.base = number_in(figures_[figure].value(before));
        of.value = number_in(figures_[figure].value(now));
        of.change = change_of(figures_[figure].name, of.base, of.value);
        changes_.push_back(std::move(of));
      }
    }
  }
  sections_.push_back({section, axes});
}

bool ColumnComparison::is_beyond(const FigureChange& change) const {
  const std::optional<double>& limit = thresholds_[change.figure];
  return limit && std::abs(change.change) > *limit;
}

Index ColumnComparison::beyond() const {
  return std::count_if(changes_.begin(), changes_.end(),
                       [&](const FigureChange& change) { return is_beyond(change); });
}

// "layer2, head 3".
std::string ColumnComparison::place(const FigureChange& change) const {
  const Section& section = sections_[change.section];
  return fmt::format("{}head {}", section.name.label.empty() ? "" : section.name.label + ", ",
                     section.axes.label(change.head));
}

std::vector<const FigureChange*> ColumnComparison::changes_of(const std::string& scheme,
                                                              std::size_t figure) const {
  std::vector<const FigureChange*> found;
  for (const FigureChange& change : changes_) {
    if (change.scheme == scheme && change.figure == figure) found.push_back(&change);
  }
  return found;
}

// For each figure that changed: in how many heads, by how much, and most in which.
std::string ColumnComparison::figures_text(const Total& total) const {
  std::vector<std::vector<std::string>> rows = {
      {total.scheme, "heads changed", "mean change", "most in", "base", "now", "change"}};
  for (std::size_t figure = 0; figure < figures_.size(); ++figure) {
    const std::vector<const FigureChange*> all = changes_of(total.scheme, figure);
    const auto most = std::max_element(all.begin(), all.end(), [](const auto* a, const auto* b) {
      return std::abs(a->change) < std::abs(b->change);
    });
    if (most == all.end() || (*most)->change == 0) continue;
    Index changed = 0;
    Index known = 0;
    double sum = 0;
    for (const FigureChange* const change : all) {
      changed += change->change != 0 ? 1 : 0;
      if (!std::isfinite(change->change)) continue;
      ++known;
      sum += std::abs(change->change);
    }
    const bool in_decades = figures_[figure].name == least_sum;
    rows.push_back({figures_[figure].name + (in_decades ? " (log10)" : ""),
                    fmt::format("{} of {}", changed, all.size()),
                    known > 0 ? number(sum / static_cast<double>(known)) : "-", place(**most),
                    text_of((*most)->base), text_of((*most)->value), signed_text((*most)->change)});
  }
  if (rows.size() == 1) return fmt::format("\n{}: no figure differs.\n", total.scheme);
  return "\n" + aligned(std::move(rows));
}

std::string ColumnComparison::beyond_text() const {
  const Index count = beyond();
  const bool any = std::any_of(thresholds_.begin(), thresholds_.end(),
                               [](const auto& limit) { return limit.has_value(); });
  if (!any) return "";
  if (count == 0) return "\nNo change is beyond --threshold.\n";
  std::vector<const FigureChange*> found;
  for (const FigureChange& change : changes_) {
    if (is_beyond(change)) found.push_back(&change);
  }
  // By how many times its threshold a change is.
  const auto times = [&](const FigureChange* change) {
    return std::abs(change->change) / std::max(*thresholds_[change->figure], 1e-300);
  };
  std::stable_sort(found.begin(), found.end(),
                   [&](const auto* a, const auto* b) { return times(a) > times(b); });
  std::string text =
      fmt::format("\n{} beyond --threshold:\n", cli::counted(count, "change is", "changes are"));
  for (std::size_t n = 0; n < std::min(found.size(), places_named); ++n) {
    text +=
        "  " +
        cli::one_line(fmt::format("{}, {}: {} {}, threshold {}", place(*found[n]), found[n]->scheme,
                                  figures_[found[n]->figure].name, signed_text(found[n]->change),
                                  number(*thresholds_[found[n]->figure]))) +
        "\n";
  }
  if (found.size() > places_named) text += "  and others; --tsv has all\n";
  return text;
}

std::string ColumnComparison::text(const std::string& input) const {
  Index heads = 0;
  for (const Section& section : sections_) heads += element_count(section.axes.leading);
  std::string text = cli::one_line(fmt::format(
                         "{} against {}: {}{}", input, against_,
                         sections_.size() > 1 ? cli::counted(sections_.size(), "group") + ", " : "",
                         cli::counted(heads, "head"))) +
                     "\n\n";
  for (const Total& total : totals_) {
    std::string line = "Under " + total.scheme;
    if (!epsilons_.empty()) {
      line += fmt::format(", {} explains away {} of {} (c < {}), {} {} of {}", against_,
                          total.base_explained, cli::counted(total.base_keys, "key"),
                          compact(epsilons_.front()), input, total.explained, total.keys);
    }
    if (total.heads > 0) {
      const auto count = static_cast<double>(total.heads);
      line += fmt::format("{} the mean entropy went from {} to {}", epsilons_.empty() ? "," : ";",
                          number(total.base_entropy / count), number(total.entropy / count));
    }
    text += cli::one_line(line) + ".\n";
  }
  for (const Total& total : totals_) text += figures_text(total);
  return text + beyond_text();
}

Json ColumnComparison::json() const {
  Json json;
  json["against"] = against_;
  Json thresholds = Json::object();
  for (std::size_t n = 0; n < figures_.size(); ++n) {
    if (thresholds_[n]) thresholds[figures_[n].name] = *thresholds_[n];
  }
  json["thresholds"] = std::move(thresholds);
  json["beyond"] = beyond();
  Json heads = Json::array();
  for (std::size_t n = 0; n < changes_.size(); n += figures_.size()) {
    const FigureChange& first = changes_[n];
    const Section& section = sections_[first.section];
    Json entry;
    entry["group"] = section.name.group;
    entry["index"] = section.axes.index(first.head);
    entry["scheme"] = first.scheme;
    for (std::size_t figure = 0; figure < figures_.size(); ++figure) {
      entry[figures_[figure].name] = json_of(changes_[n + figure]);
    }
    heads.push_back(std::move(entry));
  }
  json["heads"] = std::move(heads);
  return json;
}

std::vector<TableColumn> ColumnComparison::table_columns() {
  std::vector<TableColumn> columns = place_columns();
  for (const char* name : {"scheme", "figure", "base", "value", "change", "abs_change"}) {
    columns.push_back({name});
  }
  return columns;
}

std::vector<std::vector<Cell>> ColumnComparison::table_rows() const {
  std::vector<std::vector<Cell>> rows;
  for (const FigureChange& change : changes_) {
    const Section& section = sections_[change.section];
    std::vector<Cell> row =
        place_cells(section.name.file, section.name.group, section.axes.index(change.head));
    for (Cell more : {Cell(change.scheme), Cell(figures_[change.figure].name), cell(change.base),
                      cell(change.value), Cell(change.change), Cell(std::abs(change.change))}) {
      row.push_back(std::move(more));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<std::pair<std::string, std::string>> ColumnComparison::table_meanings() {
  return {
      {"figure", "with --against: the name of a column above"},
      {"base, value", "the figure in BASE and in INPUT"},
      {"change, abs_change",
       "value less base, for enough_min_c log10 of value over base, and its size; empty if only "
       "one of them is known or not zero"}};
}

}  // namespace attn::tools
