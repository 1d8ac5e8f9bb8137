#include "train/schedule.hpp"

#include <cmath>
#include <numbers>

namespace attn::train {

double rate_of(const Schedule& schedule, Index number, Index steps) {
  if (number <= schedule.warm_up) {
    return schedule.rate * static_cast<double>(number) / static_cast<double>(schedule.warm_up);
  }
  const double done = static_cast<double>(number - 1);
  const double all = static_cast<double>(steps);
  switch (schedule.decay) {
    case Decay::constant:
      break;
    case Decay::steps: {
      double rate = schedule.rate;
      for (const double milestone : schedule.milestones) {
        if (done >= milestone * all) rate *= schedule.factor;
      }
      return rate;
    }
    case Decay::cosine: {
      const double warm = static_cast<double>(schedule.warm_up);
      const double share = (done - warm) / (all - warm);
      return schedule.rate * (1 + std::cos(std::numbers::pi * share)) / 2;
    }
  }
  return schedule.rate;
}

}  // namespace attn::train
