#pragma once

#include <memory>
#include <vector>

#include "head/attention_sources.hpp"
#include "io/input.hpp"

namespace attn::tools {

/// The transforms of q and k, and the datasets that say them; null and empty if there are none.
struct HeadTransforms {
  std::shared_ptr<const HeadTransform> q, k;
  std::vector<ArraySource> datasets;
};

/// Reads them for queries and keys that are projected. Throws Error(input) naming a dataset whose
/// shape, type or numbers do not fit, two datasets that say the same, norms without norm_epsilon,
/// and biases without the axis of heads that a norm over all heads needs.
HeadTransforms head_transforms(const io::InputBundle& bundle, const Vectors& q, const Vectors& k);

}  // namespace attn::tools
