#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attnkit/stopping.hpp"
#include "cli/command.hpp"
#include "common/heads/head_axes.hpp"
#include "common/heads/heads.hpp"
#include "stats/attention_shares.hpp"
#include "stats/enough_queries.hpp"
#include "stats/sink_figures.hpp"
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
  std::vector<double> on_sink;     ///< per head: the weight that all its queries give the sink
  std::vector<SinkFigures> sinks;  ///< per head, or empty
  bool converged = true;           ///< false: sinkhorn was stopped early for some head
  std::optional<Convergence> convergence;  ///< the slowest of those heads
};

struct ColumnStatistics : HeadAxes {
  Index queries = 0;
  Index keys = 0;
  std::vector<Index> queries_of_key;  ///< (heads, Lk): the queries that may attend to the key
  std::vector<std::uint8_t> masked;   ///< (heads, Lk): whether no query may attend to the key
  std::vector<std::uint8_t> few;      ///< (heads, Lk): whether too few may, by summarise_columns
  std::vector<Index> empty_queries;   ///< per head, without padding
  std::vector<Index> padded_queries;  ///< per head
  std::vector<Index> padded_keys;     ///< per head; these are masked, too
  std::vector<SchemeColumns> schemes;
  /// Whether the first leading axis has packed sequences, and padding is what belongs to others; no
  /// summary counts it.
  bool packed = false;
  double slack = 0;  ///< bound_slack of the type of the computation
  /// Names of the keys, per block of `heads_per_name` consecutive heads of the input; empty if
  /// there are none.
  std::vector<std::string> names;
  Index heads_per_name = 1;
  std::string terms;  ///< what forbids or bounds scores: "causal top-left, softcap 50", or ""

  Index heads() const { return static_cast<Index>(empty_queries.size()); }
  /// Key `key` of `head`, or "".
  std::string name_of(Index head, Index key) const;
};

/// The contents of a summary.
struct ColumnSummaryOptions {
  SummaryOptions sums;
  /// The least number of queries for a meaningful column sum of a key; by default usual_min_queries
  /// of the head's own queries.
  std::optional<Index> min_queries;
  std::vector<Index> most;     ///< numbers of keys whose share of the attention is reported
  double concentration = 0;    ///< a head is concentrated if a key gets a larger mean weight
  bool full = false;           ///< the tables by head, for any number of heads
  std::optional<Index> sinks;  ///< the number of first keys that count as sinks
};

/// The summary of one scheme, for one head or pooled over several consecutive heads. Padded keys do
/// not count as masked keys.
struct SchemeSummaryOf : HeadStatistics {
  EnoughQueries enough;  ///< positions as in sums.lowest
  /// Keys with enough queries, by their sum per query, and their histogram.
  std::vector<KeySum> enough_lowest, enough_highest;
  Histogram enough_histogram;
  std::optional<Index> min_queries;  ///< the number that is enough; absent if heads differ
  AttentionShares shares;
  double mean_entropy = 0;
  Index open_queries = 0;  ///< over which the mean was taken: queries with an allowed key
  Index empty_queries = 0;
  Index padded_queries = 0;
  Index padded_keys = 0;
  double on_sink = 0;  ///< the sink's part of shares.total
  std::optional<SinkFigures> sinks;
  Index first_head = 0;  ///< a position p in sums.lowest is key p % Lk of head first_head + p / Lk
  Index concentrated = 0;  ///< heads in which a key with enough queries gets a large mean weight

  /// Of one head: the name of the key enough.greatest, or "".
  std::string greatest_name;
  /// Of one head: the key with c_j < epsilons[0], among those with enough queries if some have
  /// fewer; if it is one key and is listed.
  struct NamedKey {
    Index key = 0;
    std::string name;  ///< or ""
  };
  std::optional<NamedKey> only_explained;

  /// Whether some keys, but not all, have fewer queries than enough.
  bool has_tail() const { return enough.keys > 0 && enough.keys < sums.keys; }
};

struct ColumnSummaries {
  struct OfScheme {
    SchemeSummaryOf all;
    std::vector<SchemeSummaryOf> heads;
    /// By the last leading axis, pooled over the batch; empty if there is no batch.
    std::vector<SchemeSummaryOf> pooled;

    const std::vector<SchemeSummaryOf>& by_head() const { return pooled.empty() ? heads : pooled; }
  };
  struct KeySums {
    Index head = 0;
    Index key = 0;
    Index queries = 0;         ///< the number that may attend to the key
    std::string name;          ///< of the key, or ""
    std::vector<double> sums;  ///< as in `schemes`
  };
  std::vector<double> edges;      ///< of the histograms, common to all schemes and heads
  std::vector<OfScheme> schemes;  ///< as in ColumnStatistics
  /// The keys with enough queries of all heads, by their sum per query under the first scheme, with
  /// their sums under the others.
  std::vector<KeySums> lowest, highest;

  /// The number of queries that is enough for all heads; absent if heads differ.
  std::optional<Index> min_queries() const { return schemes.front().all.min_queries; }
};

/// Counts `statistics` of one scheme in such fine bins that histograms of several sections with
/// different ranges can be added.
class PooledHistogram {
 public:
  void add(std::span<const double> sums, std::span<const std::uint8_t> masked);
  void add(const PooledHistogram& more);

  /// The range of log10 c_j with counts, in whole decades; 0 to 1 without counts.
  std::pair<double, double> decades() const;

  /// The histogram with the equal bins that histogram_edges chooses between these whole decades.
  Histogram between(double low, double high) const;

 private:
  std::map<Index, Index> counts_;  // by bin; those with sums only
  Index zeros_ = 0;
};

/// Consumes the column sums, which are large for many heads. `pooled` gets the histogram of each
/// scheme, of keys with enough queries.
ColumnSummaries summarise_columns(ColumnStatistics& statistics, const ColumnSummaryOptions& options,
                                  std::vector<PooledHistogram>& pooled);

}  // namespace attn::tools
