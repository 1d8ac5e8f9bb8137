#pragma once

#include <vector>

#include "tensor/shape.hpp"

namespace attn::train {

enum class Decay {
  constant,
  steps,   ///< times `factor` from each of `milestones` on
  cosine,  ///< (1 + cos(π t/T))/2, t from the end of warm-up to the last step
};

/// The rate of each step.
struct Schedule {
  double rate = 1e-3;
  Index warm_up = 0;  ///< steps over which the rate rises linearly, the first one included
  Decay decay = Decay::constant;
  double factor = 0.1;
  std::vector<double> milestones;  ///< shares of all steps, in [0, 1]
};

/// The rate of step `number`, counted from 1, of `steps`.
double rate_of(const Schedule& schedule, Index number, Index steps);

}  // namespace attn::train
