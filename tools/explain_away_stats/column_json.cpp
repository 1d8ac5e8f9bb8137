#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "explain_away_stats/column_report.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

template <class Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json keys_json(const ColumnStatistics& statistics, const SchemeSummaryOf& summary,
               const std::vector<KeySum>& keys) {
  Json list = Json::array();
  for (const KeySum& key : keys) {
    const Index head = summary.first_head + key.position / statistics.keys;
    const Index index = key.position % statistics.keys;
    Json entry;
    entry["head"] = unravel(head, statistics.leading);
    entry["index"] = index;
    entry["key"] = statistics.names.empty() ? Json(nullptr) : Json(statistics.name_of(head, index));
    entry["value"] = key.value;
    list.push_back(std::move(entry));
  }
  return list;
}

Json summary_json(const ColumnStatistics& statistics, const SchemeSummaryOf& summary) {
  const ColumnSumSummary& sums = summary.sums;
  Json json;
  Json& col_sum = json["col_sum"];
  col_sum["min"] = sums.min;
  col_sum["max"] = sums.max;
  col_sum["mean"] = sums.mean;
  col_sum["median"] = sums.median;
  col_sum["quantiles"] = Json::object();
  for (const Quantile& q : sums.quantiles) {
    col_sum["quantiles"][fmt::format("{}", q.probability)] = q.value;
  }
  json["explained_away"] = Json::array();
  for (const ExplainedAway& e : sums.explained_away) {
    json["explained_away"].push_back(
        {{"epsilon", e.epsilon}, {"count", e.count}, {"share", e.share}});
  }
  json["bound"] = or_null(summary.bound);
  json["margin"] = or_null(summary.margin);
  json["holds"] = summary.bound ? Json(summary.holds) : Json(nullptr);
  json["row_entropy"]["mean"] = summary.mean_entropy;
  json["histogram"] = {{"of", "log10"},
                       {"edges", summary.histogram.edges},
                       {"counts", summary.histogram.counts},
                       {"zeros", summary.histogram.zeros}};
  json["lowest"] = keys_json(statistics, summary, sums.lowest);
  json["highest"] = keys_json(statistics, summary, sums.highest);
  json["keys"] = sums.keys;
  json["masked_keys"] = sums.masked_keys;
  json["empty_rows"] = summary.empty_queries;
  return json;
}

}  // namespace

nlohmann::ordered_json column_json(const ColumnStatistics& statistics,
                                   const ColumnSummaries& summaries) {
  Json result = Json::object();
  for (std::size_t n = 0; n < statistics.schemes.size(); ++n) {
    const ColumnSummaries::OfScheme& scheme = summaries.schemes[n];
    Json json = summary_json(statistics, scheme.all);
    json["heads"] = Json::array();
    for (Index head = 0; head < statistics.heads(); ++head) {
      Json entry;
      entry["index"] = unravel(head, statistics.leading);
      entry.update(summary_json(statistics, scheme.heads[static_cast<std::size_t>(head)]));
      json["heads"].push_back(std::move(entry));
    }
    result[statistics.schemes[n].name] = std::move(json);
  }
  return result;
}

}  // namespace attn::tools
