#include "reports/column_notes.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "common/shards/json_text.hpp"
#include "reports/json_values.hpp"
#include "tensor/error_fall.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const ColumnSummaryOptions& wanted) {
  return {{"epsilons", wanted.sums.epsilons},
          {"top", wanted.sums.top},
          {"bins", or_null(wanted.sums.bins)},
          {"min_queries", or_null(wanted.min_queries)},
          {"most", wanted.most},
          {"concentration", wanted.concentration},
          {"full", wanted.full},
          {"sinks", or_null(wanted.sinks)}};
}

ColumnSummaryOptions wanted_of(const CheckedJson& json) {
  constexpr Index most_bins = 10000;
  ColumnSummaryOptions wanted;
  wanted.sums.epsilons.clear();  // those of the default
  for (const CheckedJson& one : json.at("epsilons").list()) {
    wanted.sums.epsilons.push_back(one.number());
  }
  if (wanted.sums.epsilons.empty()) throw json.at("epsilons").refused("at least one number");
  wanted.sums.top = json.at("top").count();
  const CheckedJson bins = json.at("bins");
  if (!bins.is_null()) wanted.sums.bins = bins.count(most_bins, 1);
  wanted.min_queries = count_or_none(json.at("min_queries"));
  for (const CheckedJson& one : json.at("most").list()) wanted.most.push_back(one.count());
  wanted.concentration = json.at("concentration").number();
  wanted.full = json.at("full").flag();
  // Shards written before --sinks lack it.
  if (json.has("sinks") && !json.at("sinks").is_null()) {
    wanted.sinks = json.at("sinks").count(std::numeric_limits<Index>::max(), 1);
  }
  return wanted;
}

// Calls body(name, number) for each number of the figures.
template <class Of, class Body>
void for_figures(Of& of, const Body& body) {
  body("attention", of.attention);
  body("keys", of.keys);
  body("other_keys", of.other_keys);
  body("norms", of.norms);
  body("other_norms", of.other_norms);
  body("stable_rank", of.stable_rank);
  body("stable_rank_without", of.stable_rank_without);
  body("largest_score", of.largest_score);
}

Json json_of(const SinkFigures& sinks) {
  Json json;
  for_figures(sinks, [&](const char* name, auto number) { json[name] = number; });
  return json;
}

SinkFigures sinks_of_json(const CheckedJson& json) {
  SinkFigures sinks;
  for_figures(sinks, [&](const char* name, auto& number) {
    if constexpr (std::is_integral_v<std::remove_reference_t<decltype(number)>>) {
      number = json.at(name).count();
    } else {
      number = json.at(name).number_or_nan();
    }
  });
  return sinks;
}

Json json_of(const SchemeColumns& scheme) {
  Json json = {{"mean_entropies", scheme.mean_entropies},
               {"on_sink", scheme.on_sink},
               {"converged", scheme.converged}};
  for (const auto& bound : scheme.bounds) json["bounds"].push_back(or_null(bound));
  for (const SinkFigures& sinks : scheme.sinks) json["sinks"].push_back(json_of(sinks));
  json["convergence"] = convergence_json(scheme.convergence);
  return json;
}

std::vector<Index> counts_of(const CheckedJson& json, std::size_t heads, Index most) {
  std::vector<Index> counts;
  for (const CheckedJson& one : json.list(heads)) counts.push_back(one.count(most));
  return counts;
}

SchemeColumns scheme_of_json(const CheckedJson& json, std::size_t heads, bool has_sinks) {
  SchemeColumns scheme;
  for (const CheckedJson& one : json.at("mean_entropies").list(heads)) {
    scheme.mean_entropies.push_back(one.number_or_nan());
  }
  for (const CheckedJson& one : json.at("on_sink").list(heads)) {
    scheme.on_sink.push_back(one.number());
  }
  for (const CheckedJson& one : json.at("bounds").list(heads)) {
    scheme.bounds.push_back(number_or_none(one));
  }
  if (has_sinks) {
    for (const CheckedJson& one : json.at("sinks").list(heads)) {
      scheme.sinks.push_back(sinks_of_json(one));
    }
  }
  scheme.converged = json.at("converged").flag();
  scheme.convergence = convergence_of(json.at("convergence"));
  return scheme;
}

// The elements (heads, keys) of a result, each from 0 to `most`.
template <class T>
std::vector<T> read_all(const io::InputBundle& bundle, const std::string& name, Index heads,
                        Index keys, T most) {
  const ArraySource dataset = bundle.dataset(name);
  const Index count = element_count(dataset.shape());
  const bool fits =
      keys == 0 || heads == 0 ? count == 0 : count % keys == 0 && count / keys == heads;
  if (!fits) {
    throw Error(Failure::input,
                fmt::format("{} has shape {}, but the notes of its shard have {} heads of {} keys",
                            dataset.address(), to_string(dataset.shape()), heads, keys));
  }
  std::vector<T> values(static_cast<std::size_t>(count));
  dataset.read(Shape(dataset.shape().size(), 0), dataset.shape(), values.data());
  for (const T value : values) {
    if (value >= 0 && value <= most) continue;
    throw Error(Failure::input, fmt::format("{} has {}, expected numbers from 0 to {}",
                                            dataset.address(), value, most));
  }
  return values;
}

// Names of keys, by head as ColumnStatistics has them.
void take_names(const ReportNotes& notes, const CheckedJson& json, ColumnStatistics& statistics) {
  statistics.names = notes.names;
  const Index heads = element_count(statistics.leading);
  statistics.heads_per_name = json.count();
  if (statistics.names.empty() || heads == 0) return;
  const auto names = static_cast<Index>(statistics.names.size());
  const Index blocks = statistics.keys > 0 ? names / statistics.keys : 0;
  if (blocks * statistics.keys == names && statistics.heads_per_name > 0 &&
      (heads - 1) / statistics.heads_per_name < blocks) {
    return;
  }
  throw json.refused(fmt::format("heads that fit {} names of keys", names));
}

// Copies `width` elements of the n-th head to the place of head `head`.
template <class T>
void place(const std::vector<T>& from, std::size_t n, Index head, Index width, std::vector<T>& to) {
  const auto size = static_cast<std::size_t>(width);
  std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(n * size), size,
              to.begin() + static_cast<std::ptrdiff_t>(head * width));
}

}  // namespace

ReportNotes notes_of(const ColumnNotes& columns) {
  const ColumnStatistics& statistics = columns.statistics;
  Json common = {{"label", columns.section.label},
                 {"file", columns.section.file},
                 {"input", columns.input},
                 {"several", columns.several},
                 {"heading", columns.heading},
                 {"wanted", json_of(columns.wanted)},
                 {"leading", statistics.leading},
                 {"queries", statistics.queries},
                 {"keys", statistics.keys},
                 {"slack", statistics.slack},
                 {"heads_per_name", statistics.heads_per_name},
                 {"terms", statistics.terms}};
  Json json = {{"empty_queries", statistics.empty_queries},
               {"padded_queries", statistics.padded_queries},
               {"padded_keys", statistics.padded_keys}};
  for (const SchemeColumns& scheme : statistics.schemes) {
    common["schemes"].push_back(scheme.name);
    json["schemes"].push_back(json_of(scheme));
  }
  json["common"] = std::move(common);
  return {.group = columns.section.group, .figures = json_text(json), .names = statistics.names};
}

ColumnNotes columns_of(const ReportNotes& notes, const io::InputBundle& results,
                       const std::optional<HeadShare>& share) {
  const CheckedJson json = figures_of(notes);
  const CheckedJson common = json.at("common");
  ColumnNotes columns;
  columns.section.group = notes.group;
  columns.section.label = common.at("label").text();
  columns.section.file = common.at("file").text();
  columns.input = common.at("input").text();
  columns.several = common.at("several").flag();
  columns.heading = common.at("heading").text();
  columns.wanted = wanted_of(common.at("wanted"));
  ColumnStatistics& statistics = columns.statistics;
  statistics.leading = common.at("leading").shape();
  statistics.queries = common.at("queries").count();
  statistics.keys = common.at("keys").count();
  statistics.slack = common.at("slack").number();
  statistics.terms = common.at("terms").text();
  take_names(notes, common.at("heads_per_name"), statistics);
  const Index own = own_heads(common.at("leading"), share);
  const auto heads = static_cast<std::size_t>(own);
  statistics.empty_queries = counts_of(json.at("empty_queries"), heads, statistics.queries);
  statistics.padded_queries = counts_of(json.at("padded_queries"), heads, statistics.queries);
  statistics.padded_keys = counts_of(json.at("padded_keys"), heads, statistics.keys);
  const auto queries =
      read_all<std::int64_t>(results, "queries_of_key", own, statistics.keys, statistics.queries);
  statistics.queries_of_key.assign(queries.begin(), queries.end());
  for (const Index count : statistics.queries_of_key) {
    statistics.masked.push_back(count == 0 ? 1 : 0);
  }
  const std::vector<std::string> names = common.at("schemes").texts();
  if (names.empty()) throw common.at("schemes").refused("at least one scheme");
  for (const CheckedJson& scheme : json.at("schemes").list(names.size())) {
    SchemeColumns found = scheme_of_json(scheme, heads, columns.wanted.sinks.has_value());
    found.name = names[statistics.schemes.size()];
    found.sums = read_all<double>(results, found.name + "_col_sum", own, statistics.keys,
                                  std::numeric_limits<double>::max());
    statistics.schemes.push_back(std::move(found));
  }
  return columns;
}

ColumnNotes whole_of(const ColumnNotes& part) {
  ColumnNotes whole = part;
  ColumnStatistics& statistics = whole.statistics;
  const auto heads = static_cast<std::size_t>(element_count(statistics.leading));
  const std::size_t all_keys = heads * static_cast<std::size_t>(statistics.keys);
  statistics.queries_of_key.assign(all_keys, 0);
  statistics.masked.assign(all_keys, 0);
  statistics.empty_queries.assign(heads, 0);
  statistics.padded_queries.assign(heads, 0);
  statistics.padded_keys.assign(heads, 0);
  for (SchemeColumns& scheme : statistics.schemes) {
    scheme.sums.assign(all_keys, 0);
    scheme.mean_entropies.assign(heads, 0);
    scheme.bounds.assign(heads, std::nullopt);
    scheme.on_sink.assign(heads, 0);
    if (whole.wanted.sinks) scheme.sinks.assign(heads, {});
  }
  return whole;
}

void place_heads(const ColumnNotes& part, const std::vector<Index>& heads, ColumnNotes& whole) {
  const ColumnStatistics& from = part.statistics;
  ColumnStatistics& to = whole.statistics;
  for (std::size_t n = 0; n < heads.size(); ++n) {
    const Index head = heads[n];
    place(from.queries_of_key, n, head, from.keys, to.queries_of_key);
    place(from.masked, n, head, from.keys, to.masked);
    place(from.empty_queries, n, head, 1, to.empty_queries);
    place(from.padded_queries, n, head, 1, to.padded_queries);
    place(from.padded_keys, n, head, 1, to.padded_keys);
    for (std::size_t s = 0; s < to.schemes.size(); ++s) {
      place(from.schemes[s].sums, n, head, from.keys, to.schemes[s].sums);
      place(from.schemes[s].mean_entropies, n, head, 1, to.schemes[s].mean_entropies);
      place(from.schemes[s].bounds, n, head, 1, to.schemes[s].bounds);
      place(from.schemes[s].on_sink, n, head, 1, to.schemes[s].on_sink);
      if (whole.wanted.sinks) place(from.schemes[s].sinks, n, head, 1, to.schemes[s].sinks);
    }
  }
  for (std::size_t s = 0; s < to.schemes.size(); ++s) {
    to.schemes[s].converged = to.schemes[s].converged && from.schemes[s].converged;
    to.schemes[s].convergence = slower(to.schemes[s].convergence, from.schemes[s].convergence);
  }
}

}  // namespace attn::tools
