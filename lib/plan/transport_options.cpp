#include "plan/transport_options.hpp"

#include <cmath>

namespace attn::plan {

void require_entropic(double epsilon, const Stopping& solver, std::int64_t kept_bytes) {
  // NaN fails the comparisons.
  if (!(epsilon > 0 && std::isfinite(epsilon))) {
    refuse_option("epsilon", epsilon, "a finite number > 0");
  }
  if (solver.iterations && *solver.iterations < 1) {
    refuse_option("iterations", *solver.iterations, "at least 1");
  }
  if (solver.tolerance && !(*solver.tolerance > 0 && std::isfinite(*solver.tolerance))) {
    refuse_option("tolerance", *solver.tolerance, "a finite number > 0");
  }
  if (kept_bytes < 0) refuse_option("kept_bytes", kept_bytes, "at least 0");
}

}  // namespace attn::plan
