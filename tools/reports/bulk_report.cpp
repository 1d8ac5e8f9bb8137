#include "reports/bulk_report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/words.hpp"
#include "common/shards/json_text.hpp"
#include "common/shards/problem_share.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

Json gain_json(const ChainGain& gain) {
  return {{"spectral", gain.spectral},
          {"row_sum", gain.largest_row},
          {"column_sum", gain.largest_column}};
}

ChainGain gain_of(const CheckedJson& json) {
  return {json.at("spectral").number(), json.at("row_sum").number(),
          json.at("column_sum").number()};
}

}  // namespace

void KernelDifference::add(const KernelDifference& more) {
  matrices += more.matrices;
  differing += more.differing;
  if (more.differing == 0) return;
  // NaN ranks above every number, and of equal ones the first.
  const auto rank = [](const KernelDifference& one) {
    return std::isnan(one.largest) ? std::numeric_limits<double>::infinity() : one.largest;
  };
  const bool is_first = std::lexicographical_compare(more.index.begin(), more.index.end(),
                                                     index.begin(), index.end());
  const bool is_worse = rank(more) > rank(*this) || (rank(more) == rank(*this) && is_first);
  if (!index.empty() && !is_worse) return;
  largest = more.largest;
  index = more.index;
  found = more.found;
  expected = more.expected;
}

void BulkFigures::add(const BulkFigures& more) {
  problems += more.problems;
  scaled += more.scaled;
  largest_error = std::max(largest_error, more.largest_error);
  errors.add(more.errors);
  if (more.largest) add_chain(*more.largest);
  for (const auto& [name, difference] : more.differences) differences[name].add(difference);
}

void BulkFigures::add_chain(const ChainGain& gain) {
  const ChainGain so_far = largest.value_or(ChainGain{0, 0, 0});
  largest = {std::max(so_far.spectral, gain.spectral),
             std::max(so_far.largest_row, gain.largest_row),
             std::max(so_far.largest_column, gain.largest_column)};
}

ReportNotes notes_of(const BulkNotes& bulk) {
  const BulkFigures& figures = bulk.figures;
  Json json = {{"common",
                {{"label", bulk.section.label},
                 {"file", bulk.section.file},
                 {"several", bulk.several},
                 {"queries", bulk.queries},
                 {"keys", bulk.keys},
                 {"f64", bulk.f64},
                 {"iterations", bulk.iterations}}},
               {"problems", figures.problems},
               {"scaled", figures.scaled},
               {"largest_error", figures.largest_error},
               {"errors", figures.errors.digits()}};
  if (figures.largest) json["largest_gain"] = gain_json(*figures.largest);
  return {.group = bulk.section.group, .figures = json_text(json)};
}

BulkNotes bulk_of(const ReportNotes& notes, const std::optional<HeadShare>& share) {
  const CheckedJson json = figures_of(notes);
  const CheckedJson common = json.at("common");
  BulkNotes bulk;
  bulk.section.group = notes.group;
  bulk.section.label = common.at("label").text();
  bulk.section.file = common.at("file").text();
  bulk.several = common.at("several").flag();
  bulk.queries = common.at("queries").count();
  bulk.keys = common.at("keys").count();
  bulk.f64 = common.at("f64").flag();
  bulk.iterations = common.at("iterations").count();
  BulkFigures& figures = bulk.figures;
  figures.problems = share ? json.at("problems").count(share->own, share->own)
                           : json.at("problems").count(most_problems);
  figures.scaled = json.at("scaled").count(figures.problems);
  figures.largest_error = json.at("largest_error").number();
  ExactSum::Digits digits{};
  const std::vector<CheckedJson> found = json.at("errors").list(digits.size());
  for (std::size_t n = 0; n < digits.size(); ++n) {
    digits[n] =
        static_cast<std::uint64_t>(found[n].count(std::numeric_limits<std::uint32_t>::max()));
  }
  figures.errors = ExactSum(digits);
  if (json.has("largest_gain")) figures.largest = gain_of(json.at("largest_gain"));
  return bulk;
}

std::string bulk_words(Index problems, Index queries, Index keys, bool f64, Index iterations) {
  return fmt::format("{} of {} x {} in {}, {}", cli::counted(problems, "problem"), queries, keys,
                     f64 ? "float64" : "float32", cli::counted(iterations, "iteration"));
}

void BulkReporter::add(const BulkNotes& section, cli::Report& report) {
  const BulkFigures& figures = section.figures;
  Json& json = report.result();
  json["problems"] = figures.problems;
  json["scaled"] = figures.scaled;
  json["logarithmic"] = figures.problems - figures.scaled;
  json["largest_error"] = figures.largest_error;
  json["mean_error"] = figures.problems > 0
                           ? figures.errors.value() / static_cast<double>(figures.problems)
                           : std::numeric_limits<double>::quiet_NaN();
  if (figures.largest) {
    json["largest_gain"] = gain_json(*figures.largest);
    json["largest_gain"]["limit"] = 1;
  }
  for (const auto& [name, difference] : figures.differences) {
    Json& of = json["against"][name];
    of["matrices"] = difference.matrices;
    of["differing"] = difference.differing;
    if (difference.differing == 0) continue;
    of["worst"] = {{"index", difference.index},
                   {"found", difference.found},
                   {"expected", difference.expected}};
  }
  json["queries"] = section.queries;
  json["keys"] = section.keys;
  all_.add(figures);
  last_ = section;
}

cli::Outcome BulkReporter::conclude(const GroupReport& groups, cli::Report& report) const {
  groups.conclude(last_.several, report);
  cli::Outcome outcome;
  if (last_.several) {
    outcome.summary = fmt::format("{} in {}", cli::counted(all_.problems, "problem"),
                                  cli::counted(groups.size(), "group"));
  } else {
    outcome.summary =
        bulk_words(all_.problems, last_.queries, last_.keys, last_.f64, last_.iterations);
    if (all_.largest) {
      outcome.summary += fmt::format(", largest gain of a chain {:.6g}", all_.largest->spectral);
    }
  }
  outcome.summary += fmt::format(", marginals off by at most {:.2g}", all_.largest_error);
  const Index logarithmic = all_.problems - all_.scaled;
  if (logarithmic > 0) outcome.summary += fmt::format(", {} by logarithms", logarithmic);
  for (const auto& [name, difference] : all_.differences) {
    if (difference.differing == 0) {
      outcome.summary += fmt::format(", {} agrees to its rounding", name);
      continue;
    }
    outcome.summary += fmt::format(
        ", {} differs in {} of {} by more than rounding explains, most at {}: {:.9g}, expected "
        "{:.9g}",
        name, difference.differing, cli::counted(difference.matrices, "matrix", "matrices"),
        to_string(difference.index), difference.found, difference.expected);
    outcome.status = 1;
  }
  return outcome;
}

}  // namespace attn::tools
