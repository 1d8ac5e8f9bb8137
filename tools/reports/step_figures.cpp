#include "reports/step_figures.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reports/sorted_numbers.hpp"
#include "stats/summary.hpp"

namespace attn::tools {

StepFigures::StepFigures(const std::vector<double>& numbers, Index times, Index step) {
  for (auto n = static_cast<std::size_t>(step); n < numbers.size();
       n += static_cast<std::size_t>(times)) {
    sorted.push_back(numbers[n]);
  }
  sort_numbers(sorted);
  min = quantile(sorted, 0);
  median = quantile(sorted, 0.5);
  max = quantile(sorted, 1);
}

Index StepFigures::below(double limit) const {
  return std::count_if(sorted.begin(), sorted.end(), [&](double value) { return value < limit; });
}

nlohmann::ordered_json StepFigures::json() const {
  return {{"min", min}, {"median", median}, {"max", max}};
}

bool is_shown(Index step, Index times) {
  constexpr Index lines = 40;
  return step % ((times + lines - 1) / lines) == 0 || step + 1 == times;
}

std::string figure_text(double value) {
  return std::isnan(value) ? fmt::format(" {:>9}", "-") : fmt::format(" {:>9.4g}", value);
}

}  // namespace attn::tools
