#pragma once

#include <optional>

#include "attnkit/tensor.hpp"

/// Which keys a query may attend to by its position among them. Query i stands at p_i = i + offset,
/// where i and the keys j are counted without padding.
namespace attn {

/// Whether the keys after a query's position are hidden: a query may attend to j <= p_i only.
/// top_left: the offset is 0, unless it is given. bottom_right: it is Lk − Lq, so that the last
/// query sees every key. The two are the same if Lq = Lk.
enum class Causal { none, top_left, bottom_right };

/// The keys near a query's position: p_i − left <= j <= p_i + right. A side without a number is
/// open; numbers are >= 0, and plans refuse others.
struct Window {
  std::optional<Index> left, right;

  /// The keys fewer than `distance` positions away, distance >= 1.
  static Window nearer_than(Index distance) { return {distance - 1, distance - 1}; }

  bool is_open() const { return !left && !right; }
  bool operator==(const Window&) const = default;
};

/// The offset of a problem of this many queries and keys if none is given.
inline Index usual_offset(Causal causal, Index queries, Index keys) {
  return causal == Causal::bottom_right ? keys - queries : 0;
}

}  // namespace attn
