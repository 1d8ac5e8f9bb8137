#pragma once

#include <string>

#include "tensor/shape.hpp"

namespace attn {

/// From a problem (one position of the result's leading axes, row-major) to the block of an
/// operand that it uses. An operand's leading axes broadcast to the result's (aligned at the
/// last, length 1 or absent stretches); with `grouped`, the last leading axis of the operand may
/// also divide the result's: query head h uses key head h / (Hq/Hk) (DESIGN.md §2).
class LeadingMap {
 public:
  /// Throws Error(input) naming `what` and both shapes where the operand does not fit.
  LeadingMap(const Shape& result, const Shape& operand, bool grouped, const std::string& what);

  /// Row-major position among the operand's leading axes. Requires 0 <= problem < count.
  Index operator()(Index problem) const;

 private:
  Shape result_;
  Shape group_;   // per result axis: how many consecutive positions share one operand position
  Shape stride_;  // per result axis: operand blocks per operand position, 0 where it stretches
};

/// The leading axes of the results of attention: q's and k's broadcast together, where k's last
/// leading axis may divide q's. Throws Error(input) naming both where they disagree.
Shape result_axes(const Shape& q_leading, const Shape& k_leading, const std::string& q_name,
                  const std::string& k_name);

}  // namespace attn
