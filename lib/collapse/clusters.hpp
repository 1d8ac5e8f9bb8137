#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tensor/shape.hpp"

namespace attn::collapse {

/// The lower triangular L (d × d, row-major) with L Lᵀ = the symmetric `covariance` (d × d). Only
/// its lower triangle is read. Singular matrices are accepted: a pivot of at most 8 d roundings of
/// its variance counts as 0. Returns nothing if the matrix is not positive semidefinite or not
/// finite. A diagonal matrix yields its square roots, rounded once.
std::optional<std::vector<double>> covariance_factor(std::span<const double> covariance,
                                                     Index dimension);

/// Normal points around given centres, the mixture from which DN §5.2 draws.
struct Clusters {
  Index dimension = 0;
  std::vector<std::vector<double>> centres;  ///< (C) of `dimension`
  /// (C) of L as above, for the covariance L Lᵀ; for a diagonal L only its diagonal.
  std::vector<std::vector<double>> factors;

  /// Replaces standard normal z (count, d) by the points m_c + L_c z, where c is the label of each.
  void place(std::span<const std::int64_t> labels, double* points) const;
};

}  // namespace attn::collapse
