#pragma once

#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "attnkit/statistics.hpp"

namespace attn {

/// The keys that enough queries may attend to. Under a causal mask the last keys have few queries,
/// so that a small column sum says little about them.
struct EnoughQueries {
  Index keys = 0;                             ///< number of keys with at least min_queries queries
  std::vector<ExplainedAway> explained_away;  ///< among these keys
  double least = std::numeric_limits<double>::quiet_NaN();  ///< the least c_j of these; NaN of none
  /// The key among these with the greatest c_j/n_j, the mean weight from its n_j queries, in [0, 1]
  /// for rows that sum to 1; the first of equal keys. Absent without keys.
  std::optional<KeySum> greatest;
};

/// The default for how many of `queries` queries are enough: a tenth, at least 1.
Index usual_min_queries(Index queries);

/// `sums` (n) are column sums and `queries_of_key` (n) the numbers of queries that may attend to
/// each key, of one or more heads one after the other. `min_queries` has the number that is enough
/// for each head, at least 1. Requires that n is a multiple of the number of heads.
EnoughQueries keys_with_enough(std::span<const double> sums, std::span<const Index> queries_of_key,
                               std::span<const Index> min_queries,
                               const std::vector<double>& epsilons);

}  // namespace attn
