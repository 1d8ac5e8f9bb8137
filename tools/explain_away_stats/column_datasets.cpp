#include "explain_away_stats/column_gather.hpp"

#include "common/options/dataset_words.hpp"
#include "common/options/padding_words.hpp"
#include "common/tables/convergence_words.hpp"
#include "explain_away_stats/column_comparison.hpp"
#include "explain_away_stats/line_table.hpp"
#include "reports/column_table.hpp"

namespace attn::tools {

void declare_column_datasets(cli::Declaration& d) {
  d.formula("c_j = sum_i weight_ij")
      .formula("key j is explained away:  c_j < epsilon")
      .formula("dnas:  c_j >= 1/Lk        hnas:  c_j >= u/Lk");
  declare_score_datasets(d);
  declare_energy_datasets(d);
  d.dataset("preference", "broadcastable to (..., Lq, Lk)",
            "with fenchel: a preference >= 0 for each key")
      .dataset("sink", "(), (H) or (B, H)",
               "a logit without a value; its exponential joins the sum of each row")
      .dataset("hybrid", "(), (H) or (B, H)",
               "with hnas: the share u of dnas; its axes are the last leading axes of q")
      .dataset("weights", "(..., Lq, Lk)", "with --scheme stored: the attention weights")
      .dataset("row_potential, col_potential, unas_row_potential",
               "(..., Lq), (..., Lk), (..., Lq)",
               "with --scheme stored, in place of weights: the potentials that give the weights "
               "from the scores")
      .dataset("tokens", "(Lk) or (B, Lk)", "names of the keys, shown in the report")
      .result("queries_of_key", "(..., Lk)",
              "with -o: the number of queries that may attend to each key, int64")
      .result("SCHEME_col_sum", "(..., Lk)",
              "with -o: the column sums of each scheme, such as unas_col_sum, float64")
      .result("SCHEME_row_entropy", "(..., Lq)",
              "with -o: the entropy of each row of weights, float64")
      .report_member("SCHEME",
                     "an object for each scheme, such as \"unas\", with the members below; they "
                     "pool the keys of all heads")
      .report_member("SCHEME.col_sum", "min, max, mean, median and quantiles of the column sums")
      .report_member("SCHEME.explained_away",
                     "an array of epsilon, count and share of the keys below it, and enough: "
                     "min_queries (null if it differs between the pooled heads), and count and "
                     "share among the keys with at least that many queries")
      .report_member("SCHEME.rate, predicted_iterations", convergence_member)
      .report_member(
          "SCHEME.first_key_share, top_shares, sink_share",
          "the share of the attention on the first unmasked key; an array of keys (a number N) and "
          "the share on the N keys with the most; the share on the sink, 0 without a sink")
      .report_member(
          "SCHEME.most_per_query",
          "the key with the largest c_j/n_j, where n_j queries may attend to key j, among the keys "
          "with enough queries: head, index, key and value; null without such a key")
      .report_member("SCHEME.concentrated_heads",
                     "the heads in which that value is above --concentration: above, count and "
                     "heads, an array of their indices")
      .report_member("SCHEME.bound, margin, holds",
                     "the proven lower bound on c_j, the least c_j Lk, and whether the bound "
                     "holds; null if no bound is known")
      .report_member("SCHEME.row_entropy", "the mean")
      .report_member("SCHEME.histogram", "edges and counts of log10 c_j, and the number of zeros")
      .report_member("SCHEME.lowest, highest",
                     "the keys with the least and the most attention: head, index, key (its name), "
                     "value, queries (n_j) and value_per_query")
      .report_member(
          "SCHEME.keys, enough_keys, masked_keys, empty_rows",
          "the numbers of keys with an allowed query, of keys with at least --min-queries allowed "
          "queries, of keys without one, and of queries without an allowed key")
      .report_member("SCHEME.padded_queries, padded_keys", padding_member)
      .report_member("SCHEME.heads",
                     "an array of the same members for each head; index is its place in the "
                     "leading axes")
      .report_member("against, thresholds, beyond, heads",
                     "with --against, in place of all others: BASE; --threshold by figure; the "
                     "number of changes beyond it; an array of group, index, scheme and, for each "
                     "figure, base, value and change")
      .report_member("sweep",
                     "if --scale or --hybrid has several values, in place of all members above: an "
                     "array of scale, hybrid and result, which has these members");
  declare_groups_member(d);
  for (const auto& [columns, meaning] : column_table_meanings()) d.column(columns, meaning);
  for (const auto& [columns, meaning] : line_table_meanings()) d.column(columns, meaning);
  for (const auto& [columns, meaning] : ColumnComparison::table_meanings()) {
    d.column(columns, meaning);
  }
  d.reference(explain_away_reference).reference(doubly_normalized_reference);
}

}  // namespace attn::tools
