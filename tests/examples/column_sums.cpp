// The column sums of one head under dnas. Exits with 1 unless each is at least 1/Lk and all of them
// add up to the number of queries.

#include <algorithm>
#include <attnkit/attention.hpp>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <vector>

int main() {
  std::vector<float> q(256 * 64), k(512 * 64);
  for (std::size_t n = 0; n < q.size(); ++n) q[n] = std::sin(0.1F * float(n % 1009));
  for (std::size_t n = 0; n < k.size(); ++n) k[n] = std::cos(0.3F * float(n % 2003));

  // This part stands in lib/README.md.
  attn::AttentionInputs<float> in;
  in.q = {q.data(), {256, 64}};  // 256 queries
  in.k = {k.data(), {512, 64}};  // 512 keys
  attn::AttentionPlan<float> plan(attn::shapes_of(in), {.scheme = attn::Scheme::dnas}, 4);
  std::vector<double> c(512);
  plan.run(in, {.col_sum = {c.data(), plan.key_shape()}});
  const double least = *std::min_element(c.begin(), c.end());
  std::printf("the key with the least attention gets %g\n", least);

  const double sum = std::accumulate(c.begin(), c.end(), 0.0);
  return least >= 1 / 512.0 && std::abs(sum - 256) < 1e-3 ? 0 : 1;
}
