#pragma once

#include <optional>

#include "feasibility/feasibility.hpp"
#include "sinkhorn/marginals.hpp"

namespace attn {

/// Sums of a and b may differ by up to this share of a tolerance that was asked for.
inline constexpr double tolerated_share = 0.5;

struct MarginalTolerance {
  std::optional<double> asked;  ///< by the caller
  double in_force = 0;
  double rounding = 0;  ///< relative, of the marginals (FeasibilityOptions::epsilon)
};

/// Marginals as examined before Sinkhorn's iterations.
struct FeasibleMarginals {
  Feasibility feasibility;
  double rescaled = 0;   ///< |Σa − Σb| where the tolerance has room for it, else 0
  double tolerance = 0;  ///< what is left of the one in force for the iterations
};

/// Examines whether a plan over `pairs` has these marginals. Sums that differ by rounding only, or
/// by at most tolerated_share of the tolerance that was asked for, are made equal: b is scaled.
FeasibleMarginals make_feasible(const AllowedPairs& pairs, const MarginalTolerance& tolerance,
                                Marginals& marginals);

}  // namespace attn
