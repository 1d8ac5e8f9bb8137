#pragma once

#include <optional>
#include <string>
#include <vector>

#include "attnkit/stopping.hpp"
#include "cli/command.hpp"
#include "common/heads.hpp"
#include "stats/summary.hpp"

/// The statistics of explain-away-stats, which its report and its JSON present.
namespace attn::tools {

/// Column sums and row entropies of one head under one scheme.
struct HeadColumns {
  std::vector<double> sums;       ///< (Lk)
  std::vector<double> entropies;  ///< (Lq)
};

struct SchemeColumns {
  std::string name;                           ///< "unas", ..., "stored"
  std::vector<double> sums;                   ///< (heads, Lk)
  std::vector<double> mean_entropies;         ///< per head, over queries with keys; NaN if none
  std::vector<std::optional<double>> bounds;  ///< per head
  bool converged = true;                      ///< false: sinkhorn was stopped early for some head
  std::optional<Convergence> convergence;     ///< of those heads, the slowest
};

struct ColumnStatistics {
  Shape leading;
  Index queries = 0;
  Index keys = 0;
  std::vector<std::uint8_t> masked;  ///< (heads, Lk): no query may attend to the key
  std::vector<Index> empty_queries;  ///< per head
  std::vector<SchemeColumns> schemes;
  double slack = 0;  ///< bound_slack of the type of the computation
  /// Names of the keys, per block of `heads_per_name` consecutive heads; empty if there are none.
  std::vector<std::string> names;
  Index heads_per_name = 1;

  Index heads() const { return static_cast<Index>(empty_queries.size()); }
  /// Key `key` of `head`, or "".
  std::string name_of(Index head, Index key) const;
};

/// The summary of one scheme, for one head or pooled over all.
struct SchemeSummaryOf {
  ColumnSumSummary sums;
  Histogram histogram;
  double mean_entropy = 0;
  Index empty_queries = 0;
  std::optional<double> bound;  ///< the smallest over the heads
  std::optional<double>
      margin;            ///< min over heads of min_j c_j / bound; at least 1 if the bound holds
  bool holds = true;     ///< margin >= 1 − slack
  Index first_head = 0;  ///< a position p in sums.lowest is key p % Lk of head first_head + p / Lk
};

struct ColumnSummaries {
  struct OfScheme {
    SchemeSummaryOf all;
    std::vector<SchemeSummaryOf> heads;
  };
  struct KeySums {
    Index head = 0;
    Index key = 0;
    std::vector<double> sums;  ///< as in `schemes`
  };
  std::vector<double> edges;      ///< of the histograms, common to all schemes and heads
  std::vector<OfScheme> schemes;  ///< as in ColumnStatistics
  std::vector<KeySums> lowest;    ///< under the first scheme, of all heads, and the others' sums
  std::vector<KeySums> highest;
};

/// Consumes the column sums, which are large for many heads.
ColumnSummaries summarise_columns(ColumnStatistics& statistics, const SummaryOptions& options);

}  // namespace attn::tools
