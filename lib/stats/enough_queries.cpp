#include "stats/enough_queries.hpp"

#include <algorithm>

namespace attn {

Index usual_min_queries(Index queries) { return std::max<Index>(1, queries / 10); }

EnoughQueries keys_with_enough(std::span<const double> sums, std::span<const Index> queries_of_key,
                               std::span<const Index> min_queries,
                               const std::vector<double>& epsilons) {
  EnoughQueries found;
  for (const double epsilon : epsilons) found.explained_away.push_back({epsilon, 0, 0});
  const std::size_t keys = min_queries.empty() ? 0 : sums.size() / min_queries.size();
  for (std::size_t j = 0; j < sums.size(); ++j) {
    if (queries_of_key[j] < min_queries[j / keys]) continue;
    found.least = found.keys++ == 0 ? sums[j] : std::min(found.least, sums[j]);
    for (ExplainedAway& e : found.explained_away) {
      if (sums[j] < e.epsilon) ++e.count;
    }
    const double mean = sums[j] / static_cast<double>(queries_of_key[j]);
    if (!found.greatest || mean > found.greatest->value) {
      found.greatest = KeySum{static_cast<Index>(j), mean};
    }
  }
  for (ExplainedAway& e : found.explained_away) {
    e.share = static_cast<double>(e.count) / static_cast<double>(found.keys);  // NaN of none
  }
  return found;
}

}  // namespace attn
