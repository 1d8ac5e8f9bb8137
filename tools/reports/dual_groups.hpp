#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/dual_report.hpp"

namespace attn::tools {

/// One group of several in a run.
struct DualGroup {
  std::string label;
  std::vector<DualHead> heads;                  ///< by the last leading axis, pooled over the batch
  bool pools = false;                           ///< there is a batch
  std::optional<std::vector<double>> averaged;  ///< see mean_over_heads
};

/// `heads` in the order of the leading axes.
DualGroup dual_group(const std::string& label, const std::vector<DualHead>& heads,
                     const Shape& leading, std::optional<std::vector<double>> averaged);

/// Tables for people, by group and head; `name` names the input.
std::string dual_groups_text(const std::string& name, const std::vector<DualGroup>& groups);

}  // namespace attn::tools
