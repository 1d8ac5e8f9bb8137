#include "reports/column_table.hpp"

#include <utility>

#include <fmt/format.h>

#include "common/tables/table_options.hpp"

namespace attn::tools {
namespace {

std::vector<Cell> cells_of(const SchemeSummaryOf& summary) {
  const ColumnSumSummary& sums = summary.sums;
  std::vector<Cell> cells = {sums.keys,
                             sums.masked_keys,
                             summary.empty_queries,
                             summary.padded_keys,
                             summary.padded_queries,
                             summary.min_queries ? Cell(*summary.min_queries) : Cell(),
                             summary.enough.keys,
                             summary.enough.keys > 0 ? Cell(summary.enough.least) : Cell(),
                             sums.min,
                             sums.median,
                             sums.mean,
                             sums.max};
  for (const ExplainedAway& e : sums.explained_away) {
    cells.push_back(sums.keys > 0 ? Cell(e.share) : Cell());
  }
  for (const ExplainedAway& e : summary.enough.explained_away) {
    cells.push_back(summary.enough.keys > 0 ? Cell(e.share) : Cell());
  }
  cells.emplace_back(summary.mean_entropy);
  const double total = summary.shares.total;
  cells.emplace_back(summary.shares.first / total);
  for (const double most : summary.shares.most) cells.emplace_back(most / total);
  cells.emplace_back(summary.on_sink / total);
  const auto& greatest = summary.enough.greatest;
  cells.push_back(greatest ? Cell(greatest->value) : Cell());
  cells.push_back(greatest ? Cell(greatest->position) : Cell());
  cells.push_back(cell(summary.bound));
  cells.push_back(cell(summary.margin));
  cells.push_back(summary.bound ? Cell(summary.holds) : Cell());
  return cells;
}

}  // namespace

std::vector<TableColumn> column_table_columns(const ColumnSummaryOptions& options, bool sweep) {
  std::vector<TableColumn> columns = place_columns();
  if (sweep) {
    columns.push_back({"scale"});
    columns.push_back({"hybrid"});
  }
  columns.push_back({"scheme"});
  for (const char* const name : {"keys", "masked_keys", "empty_queries", "padded_keys",
                                 "padded_queries", "min_queries", "enough_keys", "enough_min_c"}) {
    columns.push_back({name, false});
  }
  columns.push_back({"min_c"});
  columns.push_back({"median_c"});
  columns.push_back({"mean_c", false});
  columns.push_back({"max_c", false});
  for (const double epsilon : options.sums.epsilons) {
    columns.push_back({fmt::format("share_below_{}", epsilon)});
  }
  for (const double epsilon : options.sums.epsilons) {
    columns.push_back({fmt::format("enough_share_below_{}", epsilon), false});
  }
  columns.push_back({"entropy"});
  columns.push_back({"first_key_share", false});
  for (const Index count : options.most) {
    columns.push_back({fmt::format("top_{}_share", count), false});
  }
  columns.push_back({"sink_share", false});
  columns.push_back({"max_c_per_query", false});
  columns.push_back({"max_c_per_query_key", false});
  columns.push_back({"bound", false});
  columns.push_back({"margin", false});
  columns.push_back({"holds", false});
  return columns;
}

std::vector<std::vector<Cell>> column_table_rows(const SectionName& section, const Shape& leading,
                                                 const std::vector<std::string>& schemes,
                                                 const ColumnSummaries& summaries,
                                                 const SweepPoint* point) {
  std::vector<std::vector<Cell>> rows;
  for (Index head = 0; head < element_count(leading); ++head) {
    for (std::size_t n = 0; n < schemes.size(); ++n) {
      std::vector<Cell> row = place_cells(section.file, section.group, unravel(head, leading));
      if (point != nullptr) {
        row.push_back(cell(point->scale));
        row.push_back(cell(point->hybrid));
      }
      row.emplace_back(schemes[n]);
      const SchemeSummaryOf& summary = summaries.schemes[n].heads[static_cast<std::size_t>(head)];
      for (Cell& found : cells_of(summary)) row.push_back(std::move(found));
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::vector<std::pair<std::string, std::string>> column_table_meanings() {
  return {
      {"file, group, batch, head",
       "the INPUT as given, the group in it, the index in all leading axes but the last, and in "
       "the last"},
      {"scale, hybrid", "in a sweep: the values of these options"},
      {"scheme", "the normalisation"},
      {"keys, masked_keys", "the numbers of keys with and without an allowed query"},
      {"empty_queries", "the number of queries without an allowed key"},
      {"padded_keys, padded_queries",
       "the numbers of keys and queries in padding, which no other column counts"},
      {"min_queries, enough_keys, enough_min_c",
       "--min-queries, or a tenth of the sequence's queries; the number of keys with at least "
       "that many, and the least c of these"},
      {"min_c, median_c, mean_c, max_c",
       "least, median, mean and largest column sum c of the keys"},
      {"share_below_E", "the share of the keys with c < E, for each --epsilon"},
      {"enough_share_below_E", "the same among the keys with enough queries"},
      {"entropy", "the mean entropy of the weights of a query, in nats"},
      {"first_key_share", "the share of the attention on the first key"},
      {"top_K_share", "the share on the K keys with the most, for each --top-shares"},
      {"sink_share", "the share on the sink, 0 without one"},
      {"max_c_per_query, max_c_per_query_key",
       "the largest c/n of a key with enough queries, where n queries may attend to it, and the "
       "index of that key"},
      {"bound, margin, holds",
       "the proven lower bound on c, min_c over it, and whether it holds; empty without a bound"},
  };
}

}  // namespace attn::tools
