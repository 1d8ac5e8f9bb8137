#pragma once

#include <string>
#include <vector>

#include "tensor/shape.hpp"

namespace attn {

/// Maps a problem (one position of the result's leading axes, row-major) to the block of an operand
/// that it uses. The operand's leading axes broadcast to the result's: aligned at the last axis, an
/// absent axis or one of length 1 stretches. With `grouped`, the operand's last leading axis may
/// also divide the result's: query head h uses key head h / (Hq/Hk) (tools/README.md).
class LeadingMap {
 public:
  /// Throws Error(input) naming `what` and both shapes if the operand does not broadcast.
  LeadingMap(const Shape& result, const Shape& operand, bool grouped, const std::string& what);

  /// Row-major position among the operand's leading axes. Requires 0 <= problem < count.
  Index operator()(Index problem) const;

 private:
  Shape result_;
  Shape group_;   // per result axis: how many consecutive positions share one operand position
  Shape stride_;  // per result axis: operand blocks per operand position, 0 where it stretches
};

/// The leading axes of attention's results: those of q and k broadcast together, where k's last
/// leading axis may divide q's. Throws Error(input) naming both if they do not broadcast.
Shape result_axes(const Shape& q_leading, const Shape& k_leading, const std::string& q_name,
                  const std::string& k_name);

/// The leading axes of one of the arrays that keys and values are made of.
struct HeadsOf {
  std::string name;
  Shape leading;
};

/// Heads of keys and values belong together one by one; a single head belongs to all of the other.
/// Throws Error(input) naming two arrays whose last leading axes differ, if neither is 1 or absent.
void require_same_heads(const std::vector<HeadsOf>& arrays);

}  // namespace attn
