#include "plan/transport_options.hpp"

#include <cmath>

namespace attn::plan {

void require_entropic(double epsilon, const Stopping& stopping, std::int64_t kept_bytes) {
  // NaN fails the comparisons.
  if (!(epsilon > 0 && std::isfinite(epsilon))) {
    refuse_option("epsilon", epsilon, "a finite number > 0");
  }
  if (stopping.iterations && *stopping.iterations < 1) {
    refuse_option("iterations", *stopping.iterations, "at least 1");
  }
  if (stopping.tolerance && !(*stopping.tolerance > 0 && std::isfinite(*stopping.tolerance))) {
    refuse_option("tolerance", *stopping.tolerance, "a finite number > 0");
  }
  if (kept_bytes < 0) refuse_option("kept_bytes", kept_bytes, "at least 0");
}

}  // namespace attn::plan
