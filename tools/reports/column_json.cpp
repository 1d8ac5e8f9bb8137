#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/tables/convergence_words.hpp"
#include "reports/column_report.hpp"
#include "reports/column_table.hpp"
#include "reports/json_values.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

Json key_json(const ColumnStatistics& statistics, const SchemeSummaryOf& summary, Index position) {
  const Index head = summary.first_head + position / statistics.keys;
  const Index index = position % statistics.keys;
  Json entry;
  entry["head"] = statistics.index(head);
  entry["index"] = index;
  entry["key"] = statistics.names.empty() ? Json(nullptr) : Json(statistics.name_of(head, index));
  return entry;
}

Json keys_json(const ColumnStatistics& statistics, const SchemeSummaryOf& summary,
               const std::vector<KeySum>& keys) {
  Json list = Json::array();
  for (const KeySum& key : keys) {
    Json entry = key_json(statistics, summary, key.position);
    entry["value"] = key.value;
    const Index queries = statistics.queries_of_key[static_cast<std::size_t>(
        summary.first_head * statistics.keys + key.position)];
    entry["queries"] = queries;
    entry["value_per_query"] = key.value / static_cast<double>(queries);
    list.push_back(std::move(entry));
  }
  return list;
}

Json histogram_json(const Histogram& histogram) {
  return {{"of", "log10"},
          {"edges", histogram.edges},
          {"counts", histogram.counts},
          {"zeros", histogram.zeros}};
}

Json summary_json(const ColumnStatistics& statistics, const SchemeSummaryOf& summary,
                  const ColumnSummaryOptions& options, const Figures<SchemeSummaryOf>& figures) {
  const ColumnSumSummary& sums = summary.sums;
  Json json;
  const auto add = [&](const std::vector<std::string>& names) {
    add_members(figures, summary, names, json);
  };
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
  for (std::size_t n = 0; n < sums.explained_away.size(); ++n) {
    const ExplainedAway& e = sums.explained_away[n];
    const ExplainedAway& enough = summary.enough.explained_away[n];
    json["explained_away"].push_back({{"epsilon", e.epsilon},
                                      {"count", e.count},
                                      {"share", e.share},
                                      {"enough",
                                       {{"min_queries", or_null(summary.min_queries)},
                                        {"count", enough.count},
                                        {"share", enough.share}}}});
  }
  add({"bound", "margin", "holds"});
  json["row_entropy"]["mean"] = summary.mean_entropy;
  add({"first_key_share"});
  json["top_shares"] = Json::array();
  for (std::size_t n = 0; n < options.most.size(); ++n) {
    json["top_shares"].push_back(
        {{"keys", options.most[n]}, {"share", summary.shares.most[n] / summary.shares.total}});
  }
  add({"sink_share"});
  if (options.sinks) {
    json["sinks"]["keys"] = *options.sinks;
    add_members(figures, summary, sink_figure_names(), json["sinks"]);
  }
  json["most_per_query"] = nullptr;
  if (const auto& greatest = summary.enough.greatest) {
    json["most_per_query"] = key_json(statistics, summary, greatest->position);
    json["most_per_query"]["value"] = greatest->value;
  }
  json["histogram"] = histogram_json(summary.histogram);
  json["lowest"] = keys_json(statistics, summary, sums.lowest);
  json["highest"] = keys_json(statistics, summary, sums.highest);
  json["enough"] = {{"min", summary.enough.least},
                    {"histogram", histogram_json(summary.enough_histogram)},
                    {"lowest", keys_json(statistics, summary, summary.enough_lowest)},
                    {"highest", keys_json(statistics, summary, summary.enough_highest)}};
  add({"keys", "enough_keys", "masked_keys"});
  json["empty_rows"] = summary.empty_queries;
  add({"padded_keys", "padded_queries"});
  return json;
}

}  // namespace

nlohmann::ordered_json column_json(const ColumnStatistics& statistics,
                                   const ColumnSummaryOptions& options,
                                   const ColumnSummaries& summaries) {
  const Figures<SchemeSummaryOf> figures = column_figures(options);
  Json result = Json::object();
  for (std::size_t n = 0; n < statistics.schemes.size(); ++n) {
    const ColumnSummaries::OfScheme& scheme = summaries.schemes[n];
    Json json = summary_json(statistics, scheme.all, options, figures);
    add_convergence(statistics.schemes[n].convergence, json);
    json["concentrated_heads"] = {{"above", options.concentration},
                                  {"count", scheme.all.concentrated},
                                  {"heads", Json::array()}};
    json["heads"] = Json::array();
    for (Index head = 0; head < statistics.heads(); ++head) {
      Json entry;
      entry["index"] = statistics.index(head);
      const SchemeSummaryOf& summary = scheme.heads[static_cast<std::size_t>(head)];
      entry.update(summary_json(statistics, summary, options, figures));
      json["heads"].push_back(std::move(entry));
      if (summary.concentrated > 0) {
        json["concentrated_heads"]["heads"].push_back(statistics.index(head));
      }
    }
    result[statistics.schemes[n].name] = std::move(json);
  }
  return result;
}

}  // namespace attn::tools
