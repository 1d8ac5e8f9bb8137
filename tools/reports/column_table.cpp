#include "reports/column_table.hpp"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "common/tables/table_options.hpp"

namespace attn::tools {

const std::vector<std::string>& sink_figure_names() {
  static const std::vector<std::string> names = {"first_share",         "first_value_norm",
                                                 "other_value_norm",    "stable_rank",
                                                 "stable_rank_without", "largest_score"};
  return names;
}

Figures<SchemeSummaryOf> column_figures(const ColumnSummaryOptions& options) {
  using Of = const SchemeSummaryOf&;
  Figures<SchemeSummaryOf> all = {
      {"keys", [](Of of) { return of.sums.keys; }, false},
      {"masked_keys", [](Of of) { return of.sums.masked_keys; }, false},
      {"empty_queries", [](Of of) { return of.empty_queries; }, false},
      {"padded_keys", [](Of of) { return of.padded_keys; }, false},
      {"padded_queries", [](Of of) { return of.padded_queries; }, false},
      {"min_queries", [](Of of) { return cell(of.min_queries); }, false},
      {"enough_keys", [](Of of) { return of.enough.keys; }, false},
      {"enough_min_c", [](Of of) { return of.enough.keys > 0 ? Cell(of.enough.least) : Cell(); },
       false},
      {"min_c", [](Of of) { return of.sums.min; }},
      {"median_c", [](Of of) { return of.sums.median; }},
      {"mean_c", [](Of of) { return of.sums.mean; }, false},
      {"max_c", [](Of of) { return of.sums.max; }, false}};
  const auto add = [&](const std::string& name, auto value, bool in_text = false) {
    all.push_back({name, value, in_text});
  };
  const std::vector<double>& epsilons = options.sums.epsilons;
  for (std::size_t n = 0; n < epsilons.size(); ++n) {
    const auto share = [n](Of of) {
      return of.sums.keys > 0 ? Cell(of.sums.explained_away[n].share) : Cell();
    };
    add(fmt::format("share_below_{}", epsilons[n]), share, true);
  }
  for (std::size_t n = 0; n < epsilons.size(); ++n) {
    const auto share = [n](Of of) {
      return of.enough.keys > 0 ? Cell(of.enough.explained_away[n].share) : Cell();
    };
    add(fmt::format("enough_share_below_{}", epsilons[n]), share);
  }
  add(
      "entropy", [](Of of) { return of.mean_entropy; }, true);
  add("first_key_share", [](Of of) { return of.shares.first / of.shares.total; });
  for (std::size_t n = 0; n < options.most.size(); ++n) {
    add(fmt::format("top_{}_share", options.most[n]),
        [n](Of of) { return of.shares.most[n] / of.shares.total; });
  }
  add("sink_share", [](Of of) { return of.on_sink / of.shares.total; });
  const auto of_greatest = [](auto KeySum::*member) {
    return [member](Of of) {
      return of.enough.greatest ? Cell((*of.enough.greatest).*member) : Cell();
    };
  };
  add("max_c_per_query", of_greatest(&KeySum::value));
  add("max_c_per_query_key", of_greatest(&KeySum::position));
  if (options.sinks) {
    const auto of_sinks = [](auto value) {
      return [value](Of of) {
        const double found = of.sinks ? value(*of.sinks) : SinkFigures::unknown;
        return std::isnan(found) ? Cell() : Cell(found);
      };
    };
    using Sinks = const SinkFigures&;
    add("first_share",
        [](Of of) { return of.sinks ? Cell(of.sinks->attention / of.shares.total) : Cell(); });
    add("first_value_norm",
        of_sinks([](Sinks s) { return s.norms / static_cast<double>(s.keys); }));
    add("other_value_norm",
        of_sinks([](Sinks s) { return s.other_norms / static_cast<double>(s.other_keys); }));
    add("stable_rank", of_sinks([](Sinks s) { return s.stable_rank; }));
    add("stable_rank_without", of_sinks([](Sinks s) { return s.stable_rank_without; }));
    add("largest_score", of_sinks([](Sinks s) { return s.largest_score; }));
  }
  add("bound", [](Of of) { return cell(of.bound); });
  add("margin", [](Of of) { return cell(of.margin); });
  add("holds", [](Of of) { return of.bound ? Cell(of.holds) : Cell(); });
  return all;
}

std::vector<TableColumn> column_table_columns(const ColumnSummaryOptions& options, bool sweep) {
  std::vector<TableColumn> columns = place_columns();
  if (sweep) columns.insert(columns.end(), {{"scale"}, {"hybrid"}});
  columns.push_back({"scheme"});
  return columns_of(column_figures(options), std::move(columns));
}

std::vector<std::vector<Cell>> column_table_rows(const SectionName& section, const HeadAxes& heads,
                                                 const std::vector<std::string>& schemes,
                                                 const ColumnSummaryOptions& options,
                                                 const ColumnSummaries& summaries,
                                                 const SweepPoint* point) {
  const Figures<SchemeSummaryOf> figures = column_figures(options);
  std::vector<std::vector<Cell>> rows;
  for (Index head = 0; head < element_count(heads.leading); ++head) {
    for (std::size_t n = 0; n < schemes.size(); ++n) {
      std::vector<Cell> row = place_cells(section.file, section.group, heads.index(head));
      if (point != nullptr) {
        row.push_back(cell(point->scale));
        row.push_back(cell(point->hybrid));
      }
      row.emplace_back(schemes[n]);
      const SchemeSummaryOf& summary = summaries.schemes[n].heads[static_cast<std::size_t>(head)];
      rows.push_back(cells_of(figures, summary, std::move(row)));
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
      {"first_share",
       "with --sinks: the share of the attention on the first keys, as many as it says"},
      {"first_value_norm, other_value_norm",
       "with --sinks and values: the mean norm of the values of these keys, and of the others"},
      {"stable_rank, stable_rank_without",
       "with --sinks and values: the squared Frobenius norm of the output over its squared "
       "spectral "
       "norm, and the same without the terms of these keys"},
      {"largest_score",
       "with --sinks: the largest |score| of the allowed pairs, mask and bias "
       "included"},
      {"bound, margin, holds",
       "the proven lower bound on c, min_c over it, and whether it holds; empty without a bound"},
  };
}

}  // namespace attn::tools
