// The cost of the scores of an input, for --dry-run.

#include "common/heads/attention_input.hpp"

namespace attn::tools {

double AttentionInput::pairs() const {
  const std::vector<double> counts = pairs_by_problem();
  double count = 0;
  for (Index n = 0; n < own_problems(); ++n) {
    count += counts[static_cast<std::size_t>(own_problem(n))];
  }
  return count;
}

double AttentionInput::score_flops(Scheme scheme, double passes) const {
  if (!q) return 0;
  const auto heads = static_cast<double>(own_problems());
  const auto product = [](Index rows, Index inner, Index cols) {
    return 2 * static_cast<double>(rows) * static_cast<double>(inner) * static_cast<double>(cols);
  };
  double before = 0;
  for (const auto* vectors : {&q, &k, &v}) {
    if (!*vectors || !(*vectors)->weights) continue;
    // A norm over all heads takes the products of all of them, once for all.
    before += product((*vectors)->rows, (*vectors)->weights->rows, (*vectors)->cols) *
              ((*vectors)->over_heads() ? 2 : 1);
  }
  const EnergyFlops energy_flops = recipe(scheme).energy->flops(sizes());
  before += energy_flops.before;
  return heads * before + passes * pairs() * energy_flops.per_pair;
}

}  // namespace attn::tools
