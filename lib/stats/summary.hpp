#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "attnkit/scheme.hpp"
#include "attnkit/statistics.hpp"

namespace attn {

/// Quantile of ascending numbers; NaN if there are none.
double quantile(std::span<const double> sorted, double probability);

/// The `count` keys with the least sums, ascending, ties by position; fewer if fewer keys are
/// unmasked. `sums` and `masked` as for summarise.
std::vector<KeySum> lowest_keys(std::span<const double> sums, std::span<const std::uint8_t> masked,
                                Index count);

/// The same with the greatest sums, descending.
std::vector<KeySum> highest_keys(std::span<const double> sums, std::span<const std::uint8_t> masked,
                                 Index count);

/// The same by c_j/n_j, where `queries` (n) has the number n_j > 0 of queries of each key; ties by
/// c_j. The values are c_j.
std::vector<KeySum> lowest_per_query(std::span<const double> sums, std::span<const Index> queries,
                                     std::span<const std::uint8_t> left_out, Index count);
std::vector<KeySum> highest_per_query(std::span<const double> sums, std::span<const Index> queries,
                                      std::span<const std::uint8_t> left_out, Index count);

/// `sums` (n) are finite and >= 0; `masked` (n, or empty: none) is non-zero for keys that are left
/// out. Needs no other memory, and leaves the numbers in `sums` in another order.
ColumnSumSummary summarise(std::span<double> sums, std::span<const std::uint8_t> masked,
                           const SummaryOptions& options);

/// Edges of equal bins that cover the whole powers of ten that enclose all positive `sums`, at
/// least one decade. There are `bins` bins, by default at most about 24, which are whole decades or
/// divide decades evenly. With two or more bins no power of ten is an edge, so that sums that are 1
/// up to rounding share a bin. To compare several sets, pass all of them. Requires bins >= 1.
std::vector<double> histogram_edges(std::span<const std::span<const double>> sums,
                                    std::optional<Index> bins);

/// Requires all positive unmasked sums to lie within the edges.
Histogram histogram(std::span<const double> sums, std::span<const std::uint8_t> masked,
                    std::vector<double> edges);

/// The proven lower bound on the column sums of keys that some query may attend to, where
/// `most_keys` is the largest number of keys allowed to one query: dnas 1/most_keys (DN Lemma 1, EA
/// Thm 2), hnas u/most_keys, and sinkhorn 1/most_keys at any iteration, by the same argument (after
/// a column half-step no entry exceeds b, so no row sum exceeds most_keys·b). A sink adds e^sink to
/// the row sums, and so to most_keys. unas has no bound.
std::optional<double> column_sum_bound(Scheme scheme, double hybrid, Index most_keys,
                                       double sink = -std::numeric_limits<double>::infinity());

/// min_j c_j / bound over the unmasked keys: at least 1 if the bound holds. Nothing if all keys are
/// masked.
std::optional<double> column_sum_margin(std::span<const double> sums,
                                        std::span<const std::uint8_t> masked, double bound);

/// The statistics of one or more heads together, whose `sums` and `masked` (as for summarise)
/// follow each other. `bounds` has the bound of each head, or nothing. A bound holds if no margin
/// is below 1 − slack. Leaves the numbers in `sums` in another order.
HeadStatistics statistics_of_heads(std::span<double> sums, std::span<const std::uint8_t> masked,
                                   std::span<const std::optional<double>> bounds, double slack,
                                   const std::vector<double>& edges, const SummaryOptions& options);

/// How far below the bound a computed column sum may be through rounding of the exponentials.
/// Rounding of the scores does not matter: the bound holds for the rounded scores as well.
double bound_slack(std::size_t element_size);

}  // namespace attn
