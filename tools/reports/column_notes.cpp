#include "reports/column_notes.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/json_text.hpp"
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
          {"concentration", wanted.concentration}};
}

ColumnSummaryOptions wanted_of(const Json& json) {
  ColumnSummaryOptions wanted;
  json.at("epsilons").get_to(wanted.sums.epsilons);
  json.at("top").get_to(wanted.sums.top);
  wanted.sums.bins = optional_of<Index>(json.at("bins"));
  wanted.min_queries = optional_of<Index>(json.at("min_queries"));
  json.at("most").get_to(wanted.most);
  json.at("concentration").get_to(wanted.concentration);
  return wanted;
}

Json json_of(const SchemeColumns& scheme) {
  Json json = {{"name", scheme.name},
               {"mean_entropies", scheme.mean_entropies},
               {"on_sink", scheme.on_sink},
               {"converged", scheme.converged}};
  for (const auto& bound : scheme.bounds) json["bounds"].push_back(or_null(bound));
  json["convergence"] = convergence_json(scheme.convergence);
  return json;
}

SchemeColumns scheme_of_json(const Json& json) {
  SchemeColumns scheme;
  json.at("name").get_to(scheme.name);
  for (const Json& one : json.at("mean_entropies")) {
    scheme.mean_entropies.push_back(number_or_nan(one));
  }
  json.at("on_sink").get_to(scheme.on_sink);
  json.at("converged").get_to(scheme.converged);
  for (const Json& one : json.at("bounds")) scheme.bounds.push_back(optional_of<double>(one));
  scheme.convergence = convergence_of(json.at("convergence"));
  return scheme;
}

template <class T>
std::vector<T> read_all(const io::InputBundle& bundle, const std::string& name) {
  const io::InputDataset dataset = bundle.dataset(name);
  std::vector<T> values(static_cast<std::size_t>(element_count(dataset.shape())));
  dataset.read(Shape(dataset.shape().size(), 0), dataset.shape(), values.data());
  return values;
}

// Copies `width` elements of the n-th head to those of head `head`.
template <class T>
void place(const std::vector<T>& from, std::size_t n, Index head, Index width, std::vector<T>& to) {
  const auto size = static_cast<std::size_t>(width);
  std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(n * size), size,
              to.begin() + static_cast<std::ptrdiff_t>(head * width));
}

}  // namespace

ReportNotes notes_of(const ColumnNotes& columns) {
  const ColumnStatistics& statistics = columns.statistics;
  Json json = {{"label", columns.section.label},
               {"file", columns.section.file},
               {"input", columns.input},
               {"several", columns.several},
               {"heading", columns.heading},
               {"wanted", json_of(columns.wanted)},
               {"leading", statistics.leading},
               {"queries", statistics.queries},
               {"keys", statistics.keys},
               {"slack", statistics.slack},
               {"empty_queries", statistics.empty_queries},
               {"padded_queries", statistics.padded_queries},
               {"padded_keys", statistics.padded_keys},
               {"heads_per_name", statistics.heads_per_name}};
  for (const SchemeColumns& scheme : statistics.schemes) json["schemes"].push_back(json_of(scheme));
  return {.group = columns.section.group, .figures = json_text(json), .names = statistics.names};
}

ColumnNotes columns_of(const ReportNotes& notes, const io::InputBundle& results) {
  const Json json = Json::parse(notes.figures);
  ColumnNotes columns;
  columns.section.group = notes.group;
  json.at("label").get_to(columns.section.label);
  json.at("file").get_to(columns.section.file);
  json.at("input").get_to(columns.input);
  json.at("several").get_to(columns.several);
  json.at("heading").get_to(columns.heading);
  columns.wanted = wanted_of(json.at("wanted"));
  ColumnStatistics& statistics = columns.statistics;
  json.at("leading").get_to(statistics.leading);
  json.at("queries").get_to(statistics.queries);
  json.at("keys").get_to(statistics.keys);
  json.at("slack").get_to(statistics.slack);
  json.at("empty_queries").get_to(statistics.empty_queries);
  json.at("padded_queries").get_to(statistics.padded_queries);
  json.at("padded_keys").get_to(statistics.padded_keys);
  json.at("heads_per_name").get_to(statistics.heads_per_name);
  statistics.names = notes.names;
  const auto queries = read_all<std::int64_t>(results, "queries_of_key");
  statistics.queries_of_key.assign(queries.begin(), queries.end());
  for (const Index count : statistics.queries_of_key) {
    statistics.masked.push_back(count == 0 ? 1 : 0);
  }
  for (const Json& scheme : json.at("schemes")) {
    statistics.schemes.push_back(scheme_of_json(scheme));
    SchemeColumns& own = statistics.schemes.back();
    own.sums = read_all<double>(results, own.name + "_col_sum");
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
    }
  }
  for (std::size_t s = 0; s < to.schemes.size(); ++s) {
    to.schemes[s].converged = to.schemes[s].converged && from.schemes[s].converged;
    to.schemes[s].convergence = slower(to.schemes[s].convergence, from.schemes[s].convergence);
  }
}

}  // namespace attn::tools
