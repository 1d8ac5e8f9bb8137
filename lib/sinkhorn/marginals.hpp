#pragma once

#include <optional>
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

/// log b of attention_marginals for keys with a query; 0 where there is no such key.
double log_column_marginal(const AllowedCounts& allowed);

/// a = 1/m and b = 1/n for the m queries and n keys with something allowed: a plan that sums to 1.
Marginals uniform_marginals(const AllowedCounts& allowed);

/// The marginals `row` (Lq) and `col` (Lk), where absent ones are the usual: with `of_cost` those
/// of uniform_marginals, else those of attention_marginals. A usual b adds up to what a given a
/// does, and with `of_cost` a usual a to what a given b does.
Marginals complete_marginals(std::optional<std::vector<double>> row,
                             std::optional<std::vector<double>> col, const AllowedCounts& allowed,
                             bool of_cost);

}  // namespace attn
