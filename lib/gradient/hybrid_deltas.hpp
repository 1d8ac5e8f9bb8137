#pragma once

#include "tensor/pooled_vector.hpp"

namespace attn {

/// δ_i of both parts of hnas, u·dnas + (1 − u)·unas.
struct HybridDeltas {
  PooledVector<double> dnas;
  PooledVector<double> unas;

  /// Whether to make the output of dnas, else of unas. δ of the output mixes both parts, so one
  /// part is enough. The other then follows by a division by 1/2 or more.
  static bool makes_dnas(double u) { return u <= 0.5; }
};

/// Both δ, from δ of the part that was made and of the output.
inline HybridDeltas hybrid_deltas(double u, const PooledVector<double>& made,
                                  const PooledVector<double>& mixed) {
  HybridDeltas delta{made, made};
  for (std::size_t i = 0; i < mixed.size(); ++i) {
    if (HybridDeltas::makes_dnas(u)) {
      delta.unas[i] = (mixed[i] - u * made[i]) / (1 - u);
    } else {
      delta.dnas[i] = (mixed[i] - (1 - u) * made[i]) / u;
    }
  }
  return delta;
}

}  // namespace attn
