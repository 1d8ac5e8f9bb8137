#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "tensor/shape.hpp"

namespace attn::tools {

/// A number that two lists have.
struct HeldTwice {
  Index number;
  std::size_t first, second;  ///< of the lists
};

/// The first such number found in the lists of ascending numbers below `count`; absent if there is
/// none. Takes `count` bits.
std::optional<HeldTwice> held_twice(const std::vector<const std::vector<Index>*>& lists,
                                    Index count);

}  // namespace attn::tools
