#include "common/outputs/gradient_kind.hpp"

#include "gradient/shared_sums.hpp"

namespace attn::tools {

std::vector<Index> blocks_by_problem(const GradientKind& kind, Index problems) {
  std::vector<Index> blocks;
  for (Index problem = 0; problem < problems; ++problem) blocks.push_back(kind.block(problem));
  return blocks;
}

bool is_shared(const GradientKind& kind, Index problems) { return kind.blocks() < problems; }

std::int64_t gradient_sum_bytes(const std::vector<GradientKind>& kinds, Index problems) {
  std::int64_t bytes = 0;
  for (const GradientKind& kind : kinds) {
    if (!is_shared(kind, problems)) continue;
    const SharedSums<double> sums(blocks_by_problem(kind, problems), kind.blocks());
    // And the sum that is rounded.
    bytes += (sums.most_open() + 1) * kind.size() * static_cast<std::int64_t>(sizeof(double));
  }
  return bytes;
}

double gradient_elements(const std::vector<GradientKind>& kinds) {
  double elements = 0;
  for (const GradientKind& kind : kinds) {
    elements += static_cast<double>(element_count(kind.shape()));
  }
  return elements;
}

}  // namespace attn::tools
