#pragma once

#include "tensor/infinity.hpp"

namespace attn::testing {

/// Of scores, potentials, costs and bounds.
using attn::infinity;

}  // namespace attn::testing
