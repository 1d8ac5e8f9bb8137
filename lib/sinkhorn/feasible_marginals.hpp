#pragma once

#include <optional>

#include "feasibility/feasibility.hpp"
#include "sinkhorn/marginals.hpp"

namespace attn {

/// Sums of a and b may differ by up to this share of the requested tolerance.
inline constexpr double tolerated_share = 0.5;

struct MarginalTolerance {
  std::optional<double> asked;  ///< requested by the caller
  double in_force = 0;
  double rounding = 0;  ///< rounding unit of the marginals (FeasibilityOptions::epsilon)
};

/// Marginals as examined before Sinkhorn's iterations.
struct FeasibleMarginals {
  Feasibility feasibility;
  double rescaled = 0;   ///< |Σa − Σb| if the requested tolerance has room for it, else 0
  double tolerance = 0;  ///< tolerance of the iterations: in_force − rescaled
};

/// Examines whether a plan over `pairs` has these marginals. If Σ a and Σ b differ only by
/// rounding, or by at most tolerated_share of the requested tolerance, scales b so that they are
/// equal.
FeasibleMarginals make_feasible(const AllowedPairs& pairs, const MarginalTolerance& tolerance,
                                Marginals& marginals);

}  // namespace attn
