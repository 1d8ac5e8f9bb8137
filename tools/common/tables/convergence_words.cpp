#include "common/tables/convergence_words.hpp"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace attn::tools {
namespace {

// Two digits, rounded up, so that the number is one to type and is enough.
Index rounded_up(Index iterations) {
  Index unit = 1;
  while (iterations / unit >= 100) unit *= 10;
  return (iterations + unit - 1) / unit * unit;
}

// Near 1, the distance from 1 is what matters.
std::string rate_text(double rate) {
  return rate > 0.999 ? fmt::format("1 - {:.2g}", 1 - rate) : fmt::format("{:.3g}", rate);
}

}  // namespace

std::string convergence_words(const std::optional<Convergence>& convergence,
                              const std::string& option, const std::string& others) {
  if (!convergence || std::isnan(convergence->rate)) {
    return "; try more " + option + (others.empty() ? "" : ", " + others);
  }
  const double rate = convergence->rate;
  if (!(rate < 1)) {
    return ": the error does not fall any more; try a larger --tolerance, or --precision f64 after "
           "float32";
  }
  const std::string text =
      fmt::format(": the error falls by a factor of {} per iteration", rate_text(rate));
  if (!convergence->predicted_iterations) return others.empty() ? text : text + "; try " + others;
  const Index enough = rounded_up(*convergence->predicted_iterations);
  return text + fmt::format("; at this rate {} {} suffices", option, enough) +
         (others.empty() ? "" : "; or try " + others);
}

void add_convergence(const std::optional<Convergence>& convergence, nlohmann::ordered_json& json) {
  if (!convergence) return;
  json["rate"] = convergence->rate;
  json["predicted_iterations"] = nullptr;
  if (convergence->predicted_iterations) {
    json["predicted_iterations"] = *convergence->predicted_iterations;
  }
}

}  // namespace attn::tools
