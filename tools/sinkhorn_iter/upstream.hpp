#pragma once

#include <optional>
#include <vector>

#include "common/operand.hpp"
#include "io/input.hpp"

namespace attn::tools {

/// The datasets grad_plan, grad_row_potential and grad_col_potential: derivatives of a number by
/// the results of transport. At least one is present.
struct UpstreamInput {
  /// Throws Error(input) for shapes that do not fit.
  UpstreamInput(const io::InputBundle& bundle, const Shape& leading, Index queries, Index keys);

  /// Whether a bundle has one of them.
  static bool is_in(const io::InputBundle& bundle);

  std::optional<Operand> plan;      ///< broadcasts to (…, Lq, Lk)
  std::optional<Operand> row, col;  ///< (…, Lq), (…, Lk)

  std::vector<io::InputDataset> datasets() const;
};

/// `count` numbers of a problem from `first` on; empty without an operand. Throws Error(input)
/// naming dataset and index of one that is not finite.
std::vector<double> read_upstream(const std::optional<Operand>& operand, Index problem, Index first,
                                  Index count);

}  // namespace attn::tools
