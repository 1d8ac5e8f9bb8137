#include "plan/step_options.hpp"

#include <cmath>
#include <string>

#include "attnkit/error.hpp"
#include "paths/step.hpp"

namespace attn::plan {

void require_step_options(const StepOptions& options) {
  const auto require = [](bool right, const std::string& name, const std::string& expected) {
    if (!right) throw Error(Failure::usage, name + " is out of range, expected " + expected);
  };
  require(options.optimizer >= Optimizer::sgd && options.optimizer <= Optimizer::si_sgd_printed,
          "optimizer", "one that exists");
  require(options.rate > 0 && std::isfinite(options.rate), "rate", "a finite number > 0");
  require(options.min_ratio > 0 && std::isfinite(options.min_ratio), "min_ratio",
          "a finite number > 0");
  require(options.gradient_factor >= 0 && std::isfinite(options.gradient_factor), "gradient_factor",
          "a finite number >= 0");
  require(options.decay >= 0 && std::isfinite(options.decay), "decay", "a finite number >= 0");
  require(options.momentum >= 0 && options.momentum < 1, "momentum", "a number >= 0 and < 1");
  if (!keeps_moments(options.optimizer)) return;
  require(options.beta1 >= 0 && options.beta1 < 1, "beta1", "a number >= 0 and < 1");
  require(options.beta2 >= 0 && options.beta2 < 1, "beta2", "a number >= 0 and < 1");
  require(options.epsilon > 0 && std::isfinite(options.epsilon), "epsilon", "a finite number > 0");
  require(options.number >= 1, "number", "at least 1");
}

StepOptions at_step(StepOptions options, Index number, double rate, double gradient_factor) {
  options.number = number;
  options.rate = rate;
  options.gradient_factor = gradient_factor;
  require_step_options(options);
  return options;
}

}  // namespace attn::plan
