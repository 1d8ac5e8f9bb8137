#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "attnkit/context.hpp"
#include "attnkit/error.hpp"
#include "attnkit/scheme.hpp"
#include "attnkit/tensor.hpp"

/// Statistics of the column sums c_j = Σ_i π_ij of attention weights: which keys are explained away
/// (receive almost no weight from any query), and whether the proven lower bound of a scheme holds.
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
  double share = 0;  ///< of the keys that count; NaN if there is none
};

struct Quantile {
  double probability = 0;
  double value = 0;  ///< linear between order statistics, as NumPy's default
};

/// Summary of the column sums of a head, or of many together (MATHEMATICS.md §3). Keys that no
/// query may attend to count only in masked_keys.
struct ColumnSumSummary {
  Index keys = 0;  ///< number of keys that count
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
  Index top = 10;  ///< keys in lowest and highest
  /// Bins of the histogram, >= 1. By default at most about 24 bins, which are whole decades or
  /// divide decades evenly.
  std::optional<Index> bins;
};

/// Counts of log10 c_j in equal bins (EA Fig. 1); the last bin includes its upper edge. The bins
/// cover the whole powers of ten that enclose all positive sums, at least one decade. With two or
/// more bins no power of ten is an edge, so that sums that are 1 up to rounding share a bin.
struct Histogram {
  std::vector<double> edges;  ///< of log10 c_j, bins + 1 of them
  std::vector<Index> counts;
  Index zeros = 0;  ///< c_j = 0, which has no logarithm
};

struct StatisticsOptions {
  SummaryOptions summary = {};

  /// The scheme that made the weights, for its bound. Absent: no bound is checked.
  std::optional<Scheme> scheme = std::nullopt;
  double hybrid = 0.5;  ///< u of hnas in [0, 1]; for another scheme any u but 0.5 is refused

  /// Bytes of a number in the computation of the weights: 4 or 8. Rounding may take a column sum
  /// below its bound by a relative 1e-4 or 1e-6, respectively. Other sizes are refused.
  std::size_t element_size = sizeof(double);
};

/// The shapes that a plan is made for; `heads` stands for the leading axes of the column sums.
struct StatisticsShapes {
  std::optional<Shape> column_sums;  ///< (heads, n)
  std::optional<Shape> masked;       ///< (…, n): broadcasts to (heads, n)
  std::optional<Shape> most_keys;    ///< (…): broadcasts to heads
};

/// The arrays of one run. A view without data and without axes is absent; a scalar most_keys has
/// data and no axes.
struct StatisticsInputs {
  TensorView<const double> column_sums;   ///< finite and ≥ 0
  TensorView<const std::uint8_t> masked;  ///< non-zero: no query may attend to the key
  /// The largest number of keys that one query may attend to, ≥ 0. Absent: all keys of the head
  /// that are not masked.
  TensorView<const Index> most_keys;
};

/// The shapes of arrays.
StatisticsShapes shapes_of(const StatisticsInputs& inputs);

/// The statistics of one head, or of all heads together. For all heads, `sums` pools their keys,
/// with position p for key p % n of head p / n; bound and margin are the smallest over the heads.
struct HeadStatistics {
  ColumnSumSummary sums;
  Histogram histogram;           ///< its edges are the same for all heads
  std::optional<double> bound;   ///< none for unas and fenchel
  std::optional<double> margin;  ///< min_j c_j / bound over the keys that count
  bool holds = true;             ///< the margin is at least 1, less what element_size allows
};

struct Statistics {
  HeadStatistics all;
  std::vector<HeadStatistics> heads;  ///< in row-major order of the leading axes
};

/// Statistics of double arrays. Different plans may run at the same time in different threads; one
/// plan must not run twice at a time.
class StatisticsPlan {
 public:
  /// Throws Error(input) that names operands whose shapes do not fit, and Error(usage) for options
  /// out of range, and Error(memory) if the plan does not fit into memory, as `run` does.
  StatisticsPlan(const StatisticsShapes& shapes, const StatisticsOptions& options,
                 const Context& context);

  ~StatisticsPlan();
  StatisticsPlan(StatisticsPlan&&) noexcept;
  StatisticsPlan& operator=(StatisticsPlan&&) noexcept;

  const Shape& leading() const;

  /// The most bytes of working memory that a run takes, inputs and results not included. The first
  /// run allocates it and later runs reuse it.
  std::int64_t workspace_bytes() const;

  /// Throws Error(input) for arrays whose shapes are not the plan's and for numbers that are not
  /// allowed.
  Statistics run(const StatisticsInputs& inputs);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attn
