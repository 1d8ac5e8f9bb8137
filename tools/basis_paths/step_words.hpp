#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "basis_paths/path_task.hpp"

namespace attn::tools {

// The words of step for columns (StepSummary) and nodes (ReluStepSummary).

template <class Summary>
nlohmann::ordered_json ratios_json(const Summary& found) {
  return {{"min", found.least_ratio}, {"max", found.largest_ratio}};
}

/// "1 clipped, 2 left as before": columns or nodes without a finite ratio cannot be clipped.
template <class Summary>
std::string fate_text(const StepOptions& step, const Summary& found) {
  const auto is_clipped = [&](const auto& one) { return step.clips && one.ratio < step.min_ratio; };
  const auto clipped = static_cast<std::size_t>(
      std::count_if(found.singular.begin(), found.singular.end(), is_clipped));
  const std::size_t left = found.singular.size() - clipped;
  std::string text = clipped > 0 ? fmt::format("{} clipped", clipped) : "";
  if (left > 0) text += fmt::format("{}{} left as before", text.empty() ? "" : ", ", left);
  return text;
}

/// "si-adam, step 3, ratios 0.99 to 1.01, singular columns: 1 clipped"
template <class Summary>
std::string step_text(const StepOptions& step, const Summary& found, const char* of_ratios) {
  std::string text = optimizer_name(step.optimizer);
  if (keeps_moments(step.optimizer)) text += fmt::format(", step {}", step.number);
  if (found.least_ratio <= found.largest_ratio) {
    text += fmt::format(", ratios {:.6g} to {:.6g}", found.least_ratio, found.largest_ratio);
  }
  if (!found.singular.empty()) {
    text += fmt::format(", singular {}: {}", of_ratios, fate_text(step, found));
  }
  return text;
}

/// A hint against singular columns and nodes.
inline std::string singular_hint(SkeletonRule rule) {
  return rule == SkeletonRule::cyclic || rule == SkeletonRule::across_heads
             ? "a smaller --rate, --skeleton largest, or --on-singular skip or clip"
             : "a smaller --rate, or --on-singular skip or clip";
}

}  // namespace attn::tools
