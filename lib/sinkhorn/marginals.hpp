#pragma once

#include <vector>

#include "score/allowed_counts.hpp"
#include "tensor/shape.hpp"

namespace attn {

/// The row and column sums that a plan must have; finite numbers ≥ 0, where 0 closes a line.
struct Marginals {
  std::vector<double> row;  ///< a (Lq)
  std::vector<double> col;  ///< b (Lk)

  double total() const;  ///< Σ a
};

/// MATHEMATICS.md §2: a = 1 and b = (queries with a key)/(keys with a query), 0 for lines with
/// nothing allowed.
Marginals attention_marginals(const AllowedCounts& allowed);

/// a = 1/m and b = 1/n for the m queries and n keys with something allowed: a plan that sums to 1.
Marginals uniform_marginals(const AllowedCounts& allowed);

}  // namespace attn
