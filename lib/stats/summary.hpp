#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "scheme/scheme.hpp"
#include "tensor/shape.hpp"

namespace attn {

/// One key's column sum; `position` counts within the summarised keys.
struct KeySum {
  Index position = 0;
  double value = 0;
};

/// Keys with c_j < epsilon (EA Def. 1).
struct ExplainedAway {
  double epsilon = 0;
  Index count = 0;
  double share = 0;  ///< of the keys that count
};

struct Quantile {
  double probability = 0;
  double value = 0;  ///< linear between order statistics, as NumPy's default
};

/// Quantile of ascending numbers; NaN if there are none.
double quantile(const std::vector<double>& sorted, double probability);

/// Summary of the column sums of a head, or of many together (MATHEMATICS.md §3). Keys that no
/// query may attend to count only in masked_keys.
struct ColumnSumSummary {
  Index keys = 0;  ///< that count
  Index masked_keys = 0;
  double min = 0;  ///< min to `median`: NaN if no key counts
  double max = 0;
  double mean = 0;
  double median = 0;
  std::vector<Quantile> quantiles;
  std::vector<ExplainedAway> explained_away;
  std::vector<KeySum> lowest;   ///< ascending; ties by position
  std::vector<KeySum> highest;  ///< descending; ties by position
};

struct SummaryOptions {
  std::vector<double> epsilons = {1e-8};
  std::vector<double> probabilities = {0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99};
  Index top = 10;             ///< keys in lowest and highest
  std::optional<Index> bins;  ///< of histogram_edges
};

/// The `count` keys with the least sums, ascending, equal ones by position; fewer if fewer keys are
/// unmasked. `sums` and `masked` as for summarise.
std::vector<KeySum> lowest_keys(std::span<const double> sums, std::span<const std::uint8_t> masked,
                                Index count);

/// The same with the greatest sums, descending.
std::vector<KeySum> highest_keys(std::span<const double> sums, std::span<const std::uint8_t> masked,
                                 Index count);

/// `sums` (n) are finite and >= 0; `masked` (n, or empty: none) is non-zero for keys that are left
/// out. Needs no memory besides `sums`, which are sorted in place: pass large ones by std::move.
ColumnSumSummary summarise(std::vector<double> sums, std::span<const std::uint8_t> masked,
                           const SummaryOptions& options);

/// Counts of log10 c_j in equal bins (EA Fig. 1); the last bin includes its upper edge.
struct Histogram {
  std::vector<double> edges;  ///< of log10 c_j, bins + 1 of them
  std::vector<Index> counts;
  Index zeros = 0;  ///< c_j = 0, which has no logarithm
};

/// Edges of equal bins between the whole powers of ten that enclose all positive `sums`, at least
/// one decade. There are `bins` of them; by default at most about 24, with edges that divide
/// decades or are whole ones. To compare several sets, pass all of them. Requires bins >= 1.
std::vector<double> histogram_edges(std::span<const std::span<const double>> sums,
                                    std::optional<Index> bins);

/// Requires all positive unmasked sums to lie within the edges.
Histogram histogram(std::span<const double> sums, std::span<const std::uint8_t> masked,
                    std::vector<double> edges);

/// The proven lower bound on the column sums of keys that some query may attend to, where
/// `most_keys` is the largest number of keys allowed to one query: dnas 1/most_keys (DN Lemma 1,
/// EA Thm 2), hnas u/most_keys, and sinkhorn 1/most_keys at any iteration, by the same argument
/// (after a column half-step no entry exceeds b, so no row sum exceeds most_keys·b). unas has none.
std::optional<double> column_sum_bound(Scheme scheme, double hybrid, Index most_keys);

/// How far below the bound a computed column sum may be through rounding of the exponentials.
/// Rounding of the scores does not matter: the bound holds for the rounded scores as well.
double bound_slack(std::size_t element_size);

}  // namespace attn
