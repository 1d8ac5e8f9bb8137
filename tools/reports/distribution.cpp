#include "reports/distribution.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "stats/summary.hpp"

namespace attn::tools {

Distribution::Distribution(std::vector<double> numbers) : sorted_(std::move(numbers)) {
  // std::sort must not meet a NaN without this order.
  std::sort(sorted_.begin(), sorted_.end(),
            [](double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; });
}

double Distribution::mean() const {
  if (sorted_.empty()) return std::numeric_limits<double>::quiet_NaN();
  return std::accumulate(sorted_.begin(), sorted_.end(), 0.0) / static_cast<double>(sorted_.size());
}

double Distribution::quantile(double probability) const {
  return attn::quantile(sorted_, probability);
}

Index Distribution::below(double limit) const {
  return std::count_if(sorted_.begin(), sorted_.end(), [&](double value) { return value < limit; });
}

Distribution numbers_of_step(const std::vector<double>& numbers, Index times, Index step) {
  std::vector<double> found;
  for (auto n = static_cast<std::size_t>(step); n < numbers.size();
       n += static_cast<std::size_t>(times)) {
    found.push_back(numbers[n]);
  }
  return Distribution(std::move(found));
}

nlohmann::ordered_json range_json(const Distribution& numbers) {
  return {{"min", numbers.min()}, {"median", numbers.median()}, {"max", numbers.max()}};
}

bool is_shown(Index step, Index times) {
  constexpr Index lines = 40;
  return step % ((times + lines - 1) / lines) == 0 || step + 1 == times;
}

std::string figure_text(double value) {
  return std::isnan(value) ? fmt::format(" {:>9}", "-") : fmt::format(" {:>9.4g}", value);
}

}  // namespace attn::tools
