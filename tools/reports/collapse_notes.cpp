// The notes of a shard of mode-collapse-sim on its report.

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/shards/json_text.hpp"
#include "common/shards/problem_share.hpp"
#include "reports/collapse_report.hpp"
#include "reports/json_values.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

// The lists of a scheme, by the suffix of the dataset's name after the scheme's.
constexpr std::pair<const char*, std::vector<double> SchemeRuns::*> lists_of_scheme[] = {
    {"_distance", &SchemeRuns::distance},
    {"_spread", &SchemeRuns::spread},
    {"_modes", &SchemeRuns::modes},
    {"_log_likelihood", &SchemeRuns::log_likelihood}};

// The lists of em, by the name of the dataset. Without variances of components the last is empty.
constexpr std::pair<const char*, std::vector<double> EmRuns::*> lists_of_em[] = {
    {"log_likelihood", &EmRuns::log_likelihood},
    {"variance", &EmRuns::variance},
    {"largest_variance", &EmRuns::largest_variance}};

Json json_of(const PointHeading& heading, const std::string& verb) {
  return {{"verb", verb},
          {"text", heading.text},
          {"points", heading.points},
          {"dimension", heading.dimension},
          {"steps", heading.steps}};
}

PointHeading heading_of(const CheckedJson& json, Index sets) {
  PointHeading heading;
  heading.text = json.at("text").text();
  heading.sets = sets;
  heading.points = json.at("points").count();
  heading.dimension = json.at("dimension").count();
  // The number of figures of a list must fit.
  heading.steps = json.at("steps").count(std::numeric_limits<Index>::max() / most_problems - 1);
  return heading;
}

// The numbers (sets, T + 1) of a list.
std::vector<double> list_of(const ReportNotes& notes, const std::string& name,
                            const PointHeading& heading) {
  return numbers_of(notes, name, heading.sets * (heading.steps + 1));
}

SolveStatus status_of(const CheckedJson& json) {
  const Index number = json.integer();
  for (const SolveStatus status :
       {SolveStatus::done, SolveStatus::converged, SolveStatus::not_converged}) {
    if (static_cast<Index>(status) == number) return status;
  }
  throw json.refused("0, 1 or 2");
}

void place(const std::vector<double>& from, const std::vector<Index>& sets, Index times,
           std::vector<double>& to) {
  for (std::size_t n = 0; n < sets.size(); ++n) {
    std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(n) * times, times,
                to.begin() + sets[n] * times);
  }
}

}  // namespace

std::string verb_of(const ReportNotes& notes) {
  return figures_of(notes).at("common").at("verb").text();
}

ReportNotes notes_of(const SimulationFigures& figures) {
  Json common = json_of(figures.heading, "simulate");
  common["clusters"] = figures.clusters;
  common["labels"] = figures.labels;
  common["merged"] = figures.merged;
  common["schemes"] = figures.names;
  Json json = {{"common", common}};
  ReportNotes notes{.group = "", .figures = ""};
  for (std::size_t k = 0; k < figures.names.size(); ++k) {
    const SchemeRuns& runs = figures.runs[k];
    const SchemeSummary& worst = runs.totals.worst;
    json["schemes"].push_back({{"status", static_cast<int>(worst.status)},
                               {"iterations", worst.iterations},
                               {"convergence", convergence_json(worst.convergence)}});
    for (const auto& [name, list] : lists_of_scheme)
      notes.numbers[figures.names[k] + name] = runs.*list;
  }
  notes.figures = json_text(json);
  return notes;
}

SimulationFigures simulation_of(const ReportNotes& notes, Index sets) {
  const CheckedJson json = figures_of(notes);
  const CheckedJson common = json.at("common");
  SimulationFigures figures;
  figures.heading = heading_of(common, sets);
  figures.clusters = common.at("clusters").count();
  for (const CheckedJson& label : common.at("labels").list()) {
    figures.labels.push_back(label.integer());
  }
  figures.merged = common.at("merged").number();
  figures.names = common.at("schemes").texts();
  for (const CheckedJson& scheme : json.at("schemes").list(figures.names.size())) {
    SchemeRuns runs;
    SchemeSummary& worst = runs.totals.worst;
    worst.status = status_of(scheme.at("status"));
    worst.iterations = scheme.at("iterations").count();
    worst.convergence = convergence_of(scheme.at("convergence"));
    for (const auto& [name, list] : lists_of_scheme) {
      runs.*list = list_of(notes, figures.names[figures.runs.size()] + name, figures.heading);
    }
    figures.runs.push_back(std::move(runs));
  }
  return figures;
}

SimulationFigures whole_of(const SimulationFigures& part, Index sets) {
  SimulationFigures whole = part;
  whole.heading.sets = sets;
  for (SchemeRuns& runs : whole.runs) {
    for (const auto& [name, list] : lists_of_scheme) {
      (runs.*list).assign(static_cast<std::size_t>(sets * (whole.heading.steps + 1)), 0);
    }
  }
  return whole;
}

void place_sets(const SimulationFigures& part, const std::vector<Index>& sets,
                SimulationFigures& whole) {
  for (std::size_t k = 0; k < whole.runs.size(); ++k) {
    const SchemeRuns& from = part.runs[k];
    whole.runs[k].totals.add(from.totals);
    for (const auto& [name, list] : lists_of_scheme) {
      place(from.*list, sets, whole.heading.steps + 1, whole.runs[k].*list);
    }
  }
}

void EmRuns::add(Index more_floored, Index more_empty, double more_dnas_error) {
  floored += more_floored;
  empty = std::max(empty, more_empty);
  if (!std::isnan(dnas_error) && !(more_dnas_error <= dnas_error)) dnas_error = more_dnas_error;
}

ReportNotes notes_of(const EmFigures& figures) {
  Json common = json_of(figures.heading, "em");
  common["components"] = figures.components;
  common["priors"] = figures.priors;
  common["proven"] = figures.proven;
  common["variances"] = figures.runs.largest_variance.empty() ? "one" : "each";
  Json json = {{"common", common}};
  json["floored"] = figures.runs.floored;
  json["empty"] = figures.runs.empty;
  json["dnas_error"] = figures.runs.dnas_error;
  ReportNotes notes{.group = "", .figures = json_text(json)};
  for (const auto& [name, list] : lists_of_em) {
    if (!(figures.runs.*list).empty()) notes.numbers[name] = figures.runs.*list;
  }
  return notes;
}

EmFigures em_of(const ReportNotes& notes, Index sets) {
  const CheckedJson json = figures_of(notes);
  const CheckedJson common = json.at("common");
  EmFigures figures;
  figures.heading = heading_of(common, sets);
  figures.components = common.at("components").count();
  figures.priors = common.at("priors").text();
  figures.proven = common.at("proven").flag();
  figures.runs.floored = json.at("floored").count(sets);
  figures.runs.empty = json.at("empty").count(figures.components);
  figures.runs.dnas_error = json.at("dnas_error").number_or_nan();
  const bool has_largest = common.at("variances").text() == "each";
  for (const auto& [name, list] : lists_of_em) {
    if (list == &EmRuns::largest_variance && !has_largest) continue;
    figures.runs.*list = list_of(notes, name, figures.heading);
  }
  return figures;
}

EmFigures whole_of(const EmFigures& part, Index sets) {
  EmFigures whole = part;
  whole.heading.sets = sets;
  whole.runs = {};
  const auto count = static_cast<std::size_t>(sets * (whole.heading.steps + 1));
  for (const auto& [name, list] : lists_of_em) {
    if (!(part.runs.*list).empty()) (whole.runs.*list).assign(count, 0);
  }
  return whole;
}

void place_sets(const EmFigures& part, const std::vector<Index>& sets, EmFigures& whole) {
  const Index times = whole.heading.steps + 1;
  for (const auto& [name, list] : lists_of_em) {
    const std::vector<double>& from = part.runs.*list;
    std::vector<double>& to = whole.runs.*list;
    if (!from.empty()) place(from, sets, times, to);
  }
  whole.runs.add(part.runs.floored, part.runs.empty, part.runs.dnas_error);
}

}  // namespace attn::tools
