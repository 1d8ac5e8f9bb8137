// What a shard of mode-collapse-sim keeps of its report.

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/json_text.hpp"
#include "reports/collapse_report.hpp"
#include "reports/json_values.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

// The lists of a scheme, by what follows its name in the name of the dataset.
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
          {"sets", heading.sets},
          {"points", heading.points},
          {"dimension", heading.dimension},
          {"steps", heading.steps}};
}

PointHeading heading_of(const Json& json, const std::string& verb) {
  if (json.at("verb") != verb) throw std::out_of_range("verb");
  PointHeading heading;
  json.at("text").get_to(heading.text);
  json.at("sets").get_to(heading.sets);
  json.at("points").get_to(heading.points);
  json.at("dimension").get_to(heading.dimension);
  json.at("steps").get_to(heading.steps);
  if (heading.sets < 1 || heading.steps < 0) throw std::out_of_range("sets");
  return heading;
}

// The numbers (sets, T + 1) of a list. Throws std::out_of_range if there are not as many.
std::vector<double> list_of(const ReportNotes& notes, const std::string& name,
                            const PointHeading& heading) {
  const std::vector<double>& numbers = notes.numbers.at(name);
  const auto count = static_cast<Index>(numbers.size());
  if (count % heading.sets != 0 || count / heading.sets != heading.steps + 1) {
    throw std::out_of_range(name);
  }
  return numbers;
}

SolveStatus status_of(int number) {
  constexpr SolveStatus all[] = {SolveStatus::done, SolveStatus::converged,
                                 SolveStatus::not_converged};
  for (const SolveStatus status : all) {
    if (static_cast<int>(status) == number) return status;
  }
  throw std::out_of_range("status");
}

void place(const std::vector<double>& from, const std::vector<Index>& sets, Index times,
           std::vector<double>& to) {
  for (std::size_t n = 0; n < sets.size(); ++n) {
    std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(n) * times, times,
                to.begin() + sets[n] * times);
  }
}

void require_sets(const PointHeading& part, const PointHeading& whole,
                  const std::vector<Index>& sets) {
  if (part.sets != static_cast<Index>(sets.size())) throw std::out_of_range("sets");
  if (part.steps != whole.steps) throw std::out_of_range("steps");
}

}  // namespace

std::string verb_of(const ReportNotes& notes) {
  return Json::parse(notes.figures).at("verb").get<std::string>();
}

ReportNotes notes_of(const SimulationFigures& figures) {
  Json json = json_of(figures.heading, "simulate");
  json["clusters"] = figures.clusters;
  json["labels"] = figures.labels;
  json["merged"] = figures.merged;
  ReportNotes notes{.group = "", .figures = ""};
  for (std::size_t k = 0; k < figures.names.size(); ++k) {
    const SchemeRuns& runs = figures.runs[k];
    const SchemeSummary& worst = runs.totals.worst;
    json["schemes"].push_back({{"name", figures.names[k]},
                               {"status", static_cast<int>(worst.status)},
                               {"iterations", worst.iterations},
                               {"convergence", convergence_json(worst.convergence)}});
    for (const auto& [name, list] : lists_of_scheme)
      notes.numbers[figures.names[k] + name] = runs.*list;
  }
  notes.figures = json_text(json);
  return notes;
}

SimulationFigures simulation_of(const ReportNotes& notes) {
  const Json json = Json::parse(notes.figures);
  SimulationFigures figures;
  figures.heading = heading_of(json, "simulate");
  json.at("clusters").get_to(figures.clusters);
  json.at("labels").get_to(figures.labels);
  json.at("merged").get_to(figures.merged);
  for (const Json& scheme : json.at("schemes")) {
    figures.names.push_back(scheme.at("name").get<std::string>());
    SchemeRuns runs;
    SchemeSummary& worst = runs.totals.worst;
    worst.status = status_of(scheme.at("status").get<int>());
    scheme.at("iterations").get_to(worst.iterations);
    worst.convergence = convergence_of(scheme.at("convergence"));
    for (const auto& [name, list] : lists_of_scheme) {
      runs.*list = list_of(notes, figures.names.back() + name, figures.heading);
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
  require_sets(part.heading, whole.heading, sets);
  for (std::size_t k = 0; k < whole.runs.size(); ++k) {
    const SchemeRuns& from = part.runs.at(k);
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
  Json json = json_of(figures.heading, "em");
  json["components"] = figures.components;
  json["priors"] = figures.priors;
  json["proven"] = figures.proven;
  json["floored"] = figures.runs.floored;
  json["empty"] = figures.runs.empty;
  json["dnas_error"] = figures.runs.dnas_error;
  ReportNotes notes{.group = "", .figures = json_text(json)};
  for (const auto& [name, list] : lists_of_em) {
    if (!(figures.runs.*list).empty()) notes.numbers[name] = figures.runs.*list;
  }
  return notes;
}

EmFigures em_of(const ReportNotes& notes) {
  const Json json = Json::parse(notes.figures);
  EmFigures figures;
  figures.heading = heading_of(json, "em");
  json.at("components").get_to(figures.components);
  json.at("priors").get_to(figures.priors);
  json.at("proven").get_to(figures.proven);
  json.at("floored").get_to(figures.runs.floored);
  json.at("empty").get_to(figures.runs.empty);
  figures.runs.dnas_error = number_or_nan(json.at("dnas_error"));
  for (const auto& [name, list] : lists_of_em) {
    if (list == &EmRuns::largest_variance && notes.numbers.count(name) == 0) continue;
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
  require_sets(part.heading, whole.heading, sets);
  const Index times = whole.heading.steps + 1;
  for (const auto& [name, list] : lists_of_em) {
    const std::vector<double>& from = part.runs.*list;
    std::vector<double>& to = whole.runs.*list;
    if (from.empty() != to.empty()) throw std::out_of_range(name);
    if (!from.empty()) place(from, sets, times, to);
  }
  whole.runs.add(part.runs.floored, part.runs.empty, part.runs.dnas_error);
}

}  // namespace attn::tools
