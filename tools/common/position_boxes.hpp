#pragma once

#include <algorithm>

#include "tensor/shape.hpp"

namespace attn::tools {

/// Calls use(start, count, place) for boxes of an array of shape `leading` that together are its
/// row-major positions [first, first + positions): each box lies in one piece, from position `first
/// + place` on. As few boxes as possible, such as one for whole rows.
template <class Use>
void for_position_boxes(const Shape& leading, Index first, Index positions, const Use& use) {
  for (Index done = 0; done < positions;) {
    const Index at = first + done;
    // The outermost axis along which steps of whole `inner` positions are possible.
    std::size_t axis = leading.size();
    Index inner = 1;
    while (axis > 0) {
      const Index wider = axis == leading.size() ? 1 : inner * leading[axis];
      if (at % wider != 0 || positions - done < wider) break;
      inner = wider;
      --axis;
    }
    Shape start = unravel(at, leading);
    Shape count(leading.size(), 1);
    Index taken = inner;
    if (!leading.empty()) {
      const Index steps = std::min((positions - done) / inner, leading[axis] - start[axis]);
      count[axis] = steps;
      std::copy(leading.begin() + static_cast<std::ptrdiff_t>(axis) + 1, leading.end(),
                count.begin() + static_cast<std::ptrdiff_t>(axis) + 1);
      taken = steps * inner;
    }
    use(start, count, done);
    done += taken;
  }
}

}  // namespace attn::tools
