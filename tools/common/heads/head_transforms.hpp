#pragma once

#include <memory>
#include <string>
#include <vector>

#include "head/attention_sources.hpp"
#include "io/input.hpp"

namespace attn::tools {

/// The names of the datasets that say what a model does to projected queries and keys: norms and
/// rotary positions.
const std::vector<std::string>& transform_names();

/// The transforms of q and k, and the datasets that say them; null and empty if there are none.
struct HeadTransforms {
  std::shared_ptr<const HeadTransform> q, k;
  std::vector<ArraySource> datasets;
};

/// Reads them for queries and keys that are projected. Throws Error(input) naming a dataset whose
/// shape, type or numbers do not fit, two datasets that say the same, norms without norm_epsilon,
/// and biases without the axis of heads that a norm over all heads needs.
HeadTransforms head_transforms(const io::InputBundle& bundle, const Vectors& q, const Vectors& k);

/// Throws Error(usage) naming one of these datasets: `who` does not compute with it.
void require_no_transforms(const io::InputBundle& bundle, const std::string& who);

}  // namespace attn::tools
