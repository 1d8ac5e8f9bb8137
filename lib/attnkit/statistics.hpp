#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "attnkit/error.hpp"
#include "attnkit/scheme.hpp"
#include "attnkit/tensor.hpp"

/// Statistics of the column sums c_j = Σ_i π_ij of attention weights: which keys are explained away
/// (attended to by no query to speak of), and whether the proven lower bound of a scheme holds.
namespace attn {

/// One key's column sum; `position` counts within the keys summarised.
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

/// A summary of the column sums of a head, or of many together (SPEC.md §3). Keys
/// that no query may attend to count nowhere but in masked_keys.
struct ColumnSumSummary {
  Index keys = 0;  ///< that count
  Index masked_keys = 0;
  double min = 0;  ///< this to `median`: NaN where no key counts
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

/// Counts of log10 c_j in equal bins (EA Fig. 1); the last bin holds its upper edge.
struct Histogram {
  std::vector<double> edges;  ///< of log10 c_j, bins + 1 of them
  std::vector<Index> counts;
  Index zeros = 0;  ///< c_j = 0, which has no logarithm
};

struct StatisticsOptions {
  SummaryOptions summary = {};

  /// The scheme that made the weights, for its bound; absent: no bound is looked at.
  std::optional<Scheme> scheme = std::nullopt;
  double hybrid = 0.5;  ///< u of hnas in [0, 1]

  /// Bytes of a number in the computation of the weights, 4 or 8, which decides how far rounding
  /// may take a column sum below its bound.
  std::size_t element_size = sizeof(double);
};

/// The shapes that a plan is made for; `heads` stands for the leading axes of the column sums.
struct StatisticsShapes {
  std::optional<Shape> column_sums;  ///< (heads, n)
  std::optional<Shape> masked;       ///< (…, n): broadcasts to (heads, n)
  std::optional<Shape> most_keys;    ///< (…): broadcasts to heads
};

/// The arrays of one run. A view without data and without axes is absent, but a scalar most_keys,
/// which has no axes.
struct StatisticsInputs {
  TensorView<const double> column_sums;   ///< finite and ≥ 0
  TensorView<const std::uint8_t> masked;  ///< non-zero: no query may attend to the key
  /// The largest number of keys that one query may attend to, ≥ 0. Absent: all keys of the head
  /// that are not masked.
  TensorView<const Index> most_keys;
};

/// The shapes of arrays.
StatisticsShapes shapes_of(const StatisticsInputs& inputs);

/// Of one head, or of all heads together: then `sums` pools the keys of all heads, a position p in
/// it is key p % n of head p / n, and bound and margin are the smallest of the heads.
struct HeadStatistics {
  ColumnSumSummary sums;
  Histogram histogram;           ///< its edges are the same for all heads
  std::optional<double> bound;   ///< none is known for unas and fenchel
  std::optional<double> margin;  ///< min_j c_j / bound over the keys that count; ≥ 1 if it holds
  bool holds = true;             ///< the margin is at least 1, up to rounding
};

struct Statistics {
  HeadStatistics all;
  std::vector<HeadStatistics> heads;  ///< in row-major order of the leading axes
};

/// Statistics of double arrays. Plans are independent of each other: they may run at the same time
/// in different threads, each plan once at a time.
class StatisticsPlan {
 public:
  /// Throws Error(input) naming operands whose shapes do not fit, Error(usage) for options out of
  /// range. Threads: ≥ 1. No result depends on their number.
  StatisticsPlan(const StatisticsShapes& shapes, const StatisticsOptions& options, int threads);

  ~StatisticsPlan();
  StatisticsPlan(StatisticsPlan&&) noexcept;
  StatisticsPlan& operator=(StatisticsPlan&&) noexcept;

  const Shape& leading() const;

  /// Bytes that a run takes at most, beside inputs and results.
  std::int64_t workspace_bytes() const;

  /// Throws Error(input) for arrays of other shapes than the plan's and for numbers that are not
  /// allowed.
  Statistics run(const StatisticsInputs& inputs);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attn
