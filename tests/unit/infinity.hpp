#pragma once

#include "tensor/infinity.hpp"

namespace attn::testing {

/// The infinity of scores, potentials, costs and bounds.
using attn::infinity;

}  // namespace attn::testing
