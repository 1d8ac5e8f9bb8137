#include "explain_away_stats/line_table.hpp"

#include <numeric>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "common/shards/shard.hpp"
#include "common/tables/table_options.hpp"

namespace attn::tools {

RowsOf rows_of(const cli::Arguments& arguments) {
  const std::string& word = arguments.text("rows");
  return word == "keys" ? RowsOf::keys : word == "queries" ? RowsOf::queries : RowsOf::heads;
}

void require_rows(const cli::Arguments& arguments, bool swept) {
  if (rows_of(arguments) == RowsOf::heads) return;
  const std::string rows = "--rows " + arguments.text("rows");
  if (!arguments.host && !arguments.flag("tsv") && !arguments.flag("csv") &&
      !arguments.table_file) {
    throw Error(Failure::usage, rows + " has no effect without a table",
                "--tsv, --csv or -o FILE.csv");
  }
  if (shard_of(arguments)) {
    throw Error(Failure::usage, rows + " has no effect on a shard", "run it without --shard");
  }
  for (const char* const option : {"sort", "top"}) {
    if (!arguments.given(option)) continue;
    throw Error(Failure::usage, fmt::format("--{} has no effect on {}", option, rows),
                "sort(1) sorts the lines");
  }
  if (swept) throw Error(Failure::usage, rows + " has no effect on a sweep");
}

std::vector<TableColumn> line_table_columns(RowsOf rows) {
  std::vector<TableColumn> columns = place_columns();
  columns.insert(columns.end(), {{"scheme"}, {"index"}});
  if (rows == RowsOf::keys) {
    columns.insert(columns.end(), {{"token"}, {"queries"}, {"c"}, {"c_per_query"}, {"share"}});
  } else {
    columns.push_back({"entropy"});
  }
  return columns;
}

std::vector<std::vector<Cell>> line_table_rows(RowsOf rows, const SectionName& section, Index head,
                                               const ColumnStatistics& names,
                                               const std::string& scheme,
                                               const std::vector<Index>& queries_of_key,
                                               const HeadColumns& columns, const TileRange& range) {
  std::vector<std::vector<Cell>> table;
  const std::vector<Cell> place = place_cells(section.file, section.group, names.index(head));
  const auto add = [&](Index index, std::initializer_list<Cell> cells) {
    std::vector<Cell> row = place;
    row.emplace_back(scheme);
    row.emplace_back(index);
    row.insert(row.end(), cells);
    table.push_back(std::move(row));
  };
  if (rows == RowsOf::queries) {
    for (Index query = range.row0; query < range.row0 + range.rows; ++query) {
      add(query, {columns.entropies[static_cast<std::size_t>(query)]});
    }
    return table;
  }
  const double total = std::accumulate(columns.sums.begin(), columns.sums.end(), 0.0);
  for (Index key = range.col0; key < range.col0 + range.cols; ++key) {
    const auto at = static_cast<std::size_t>(key);
    const double sum = columns.sums[at];
    const Index queries = queries_of_key[at];
    const Cell per_query = queries > 0 ? Cell(sum / static_cast<double>(queries)) : Cell();
    add(key, {names.name_of(head, key), queries, sum, per_query, sum / total});
  }
  return table;
}

std::int64_t line_table_bytes(RowsOf rows, Index lines) {
  // A number takes at most 24 characters, a name seldom more.
  const auto columns = static_cast<std::int64_t>(line_table_columns(rows).size());
  return rows == RowsOf::heads ? 0 : lines * columns * 25;
}

std::vector<std::pair<std::string, std::string>> line_table_meanings() {
  return {
      {"index", "with --rows: the position of the key, or query"},
      {"token", "with --rows keys: its name, from the dataset tokens"},
      {"queries", "with --rows keys: the number of queries that may attend to it"},
      {"c, c_per_query, share",
       "with --rows keys: its column sum, the same over the number of queries, and its share of "
       "the attention that the keys of the head get"},
      {"entropy", "with --rows queries: the entropy of the weights of the query, in nats"}};
}

}  // namespace attn::tools
