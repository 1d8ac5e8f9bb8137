#pragma once

#include <algorithm>

#include "tensor/shape.hpp"

namespace attn::tools {

/// For a dataset (leading, own), calls use(start, count, place) for the fewest boxes that cover its
/// row-major positions [first, first + positions) along the leading axes, in order. `place` is the
/// number of elements in the boxes before.
template <class Use>
void for_position_boxes(const Shape& leading, const Shape& own, Index first, Index positions,
                        const Use& use) {
  const Shape zeros(own.size(), 0);
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
      std::copy(leading.begin() + axis + 1, leading.end(), count.begin() + axis + 1);
      taken = steps * inner;
    }
    use(join(start, zeros), join(count, own), done * element_count(own));
    done += taken;
  }
}

}  // namespace attn::tools
