#pragma once

#include <optional>

#include "attnkit/transport.hpp"
#include "score/allowed_counts.hpp"
#include "tensor/pooled_vector.hpp"
#include "tensor/shape.hpp"

namespace attn {

/// The row and column sums that a plan must have or, with penalties, should have; finite numbers ≥
/// 0, where 0 closes a line.
struct Marginals {
  PooledVector<double> row = {};                    ///< a (Lq)
  PooledVector<double> col = {};                    ///< b (Lk)
  std::optional<MarginalPenalties> penalties = {};  ///< in units of the scores; none: exact sums

  /// a = b, s_ij = s_ji, and equal penalties: both sides have the same potential.
  bool symmetric = false;

  double total() const;  ///< Σ a; with penalties the larger of Σ a and Σ b
};

/// MATHEMATICS.md §2: a = 1 and b = (queries with a key)/(keys with a query), 0 for lines without
/// an allowed pair.
Marginals attention_marginals(const AllowedCounts& allowed);

/// log b of attention_marginals for keys with a query; 0 if no key has a query.
double log_column_marginal(const AllowedCounts& allowed);

/// a = 1/m and b = 1/n for the m queries and n keys with an allowed pair: the plan sums to 1.
Marginals uniform_marginals(const AllowedCounts& allowed);

/// The marginals `row` (Lq) and `col` (Lk), with defaults for absent ones: uniform_marginals with
/// `of_cost`, else attention_marginals. A default b is scaled to the sum of a given a, and with
/// `of_cost` a default a to the sum of a given b.
Marginals complete_marginals(std::optional<PooledVector<double>> row,
                             std::optional<PooledVector<double>> col, const AllowedCounts& allowed,
                             bool of_cost);

}  // namespace attn
