#pragma once

#include "tensor/view.hpp"

namespace attn::fenchel {

/// A point; its difference `away` from the mean of the templates under p; the mean; and p.
struct NearPoint {
  const double* point;  ///< (d)
  const double* away;   ///< (d)
  const double* mean;   ///< (d)
  const double* p;      ///< (n)
};

/// A lower bound >= 0 on the distance of a point to the convex hull of the templates (n, d),
/// without templates whose `closed` (n, or null) is +inf. Any direction w gives a bound: the least
/// ⟨point − t_i, w⟩/‖w‖. Returns the larger of two bounds: for `away`, and for its part orthogonal
/// to the face of the templates with p_i >= 1e-9. If the mean of p is nearly the nearest point of
/// the hull, the second bound is the distance, up to rounding.
double distance_from_hull(MatrixView<const double> templates, const double* closed,
                          const NearPoint& near);

}  // namespace attn::fenchel
