#include "tensor/value_range.hpp"

#include <algorithm>
#include <cmath>

namespace attn {

void ValueRange::add(const double* values, Index size) {
  count += size;
  for (Index k = 0; k < size; ++k) {
    const double value = values[k];
    if (std::isnan(value)) {
      ++nan;
    } else if (std::isinf(value)) {
      ++infinite;
    } else {
      min = std::min(min, value);
      max = std::max(max, value);
    }
  }
}

}  // namespace attn
