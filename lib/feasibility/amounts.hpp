#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/pooled_vector.hpp"
#include "tensor/shape.hpp"

namespace attn::feasibility {

/// The amount that each line supplies or takes, in whole units.
using Amounts = PooledVector<std::int64_t>;

/// The place of a line in a vector.
constexpr std::size_t at(Index line) { return static_cast<std::size_t>(line); }

}  // namespace attn::feasibility
