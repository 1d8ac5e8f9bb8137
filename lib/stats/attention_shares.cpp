#include "stats/attention_shares.hpp"

#include <algorithm>

#include "stats/summary.hpp"

namespace attn {

void AttentionShares::add(const AttentionShares& more) {
  total += more.total;
  first += more.first;
  if (most.size() < more.most.size()) most.resize(more.most.size(), 0.0);
  for (std::size_t n = 0; n < more.most.size(); ++n) most[n] += more.most[n];
}

AttentionShares attention_shares(std::span<const double> sums, std::span<const std::uint8_t> masked,
                                 const std::vector<Index>& counts) {
  AttentionShares shares;
  bool seen = false;
  for (std::size_t j = 0; j < sums.size(); ++j) {
    if (!masked.empty() && masked[j] != 0) continue;
    shares.total += sums[j];
    if (!seen) shares.first = sums[j];
    seen = true;
  }
  const Index largest = counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
  const std::vector<KeySum> keys = highest_keys(sums, masked, largest);
  for (const Index count : counts) {
    double sum = 0;
    const auto taken = std::min(keys.size(), static_cast<std::size_t>(count));
    for (std::size_t n = 0; n < taken; ++n) sum += keys[n].value;
    shares.most.push_back(sum);
  }
  return shares;
}

}  // namespace attn
