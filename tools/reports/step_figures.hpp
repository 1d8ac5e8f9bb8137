#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tensor/shape.hpp"

namespace attn::tools {

/// One figure after a step, over all sets of points.
struct StepFigures {
  double min = 0;  ///< NaN if there are no numbers
  double median = 0;
  double max = 0;
  std::vector<double> sorted;

  /// The figures of step `step`, from numbers (sets, times).
  StepFigures(const std::vector<double>& numbers, Index times, Index step);

  Index below(double limit) const;
  nlohmann::ordered_json json() const;
};

/// Whether a table of `times` steps shows `step`: at most about 40 lines, with the first and the
/// last.
bool is_shown(Index step, Index times);

/// Right-aligned in ten columns, "-" for a NaN.
std::string figure_text(double value);

}  // namespace attn::tools
