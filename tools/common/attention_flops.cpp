// What the scores of an input cost, for --dry-run.

#include "common/attention_input.hpp"
#include "score/band.hpp"

namespace attn::tools {

double AttentionInput::pairs() const {
  const auto left = [&](std::optional<Index> length) {
    const Band band(queries, keys, causal, options.window, length);
    double count = 0;
    for (Index row = 0; row < queries; ++row) {
      count += static_cast<double>(band.end(row) - band.begin(row));
    }
    return count;
  };
  if (key_length.empty()) return static_cast<double>(problems) * left(std::nullopt);
  double count = 0;
  double same = 0;  // of the problem before: the heads of a batch share their length
  for (std::size_t n = 0; n < key_length.size(); ++n) {
    if (n == 0 || key_length[n] != key_length[n - 1]) same = left(key_length[n]);
    count += same;
  }
  return count;
}

double AttentionInput::score_flops(Scheme scheme, double passes) const {
  if (!q) return 0;
  const auto heads = static_cast<double>(problems);
  const auto product = [](Index rows, Index inner, Index cols) {
    return 2 * static_cast<double>(rows) * static_cast<double>(inner) * static_cast<double>(cols);
  };
  double before = 0;
  for (const auto* vectors : {&q, &k, &v}) {
    if (!*vectors || !(*vectors)->weights) continue;
    before += product((*vectors)->rows, (*vectors)->weights->rows, (*vectors)->cols);
  }
  const EnergyFlops energy_flops = recipe(scheme).energy->flops(sizes());
  before += energy_flops.before;
  return heads * before + passes * pairs() * energy_flops.per_pair;
}

}  // namespace attn::tools
