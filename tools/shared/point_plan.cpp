#include "shared/point_plan.hpp"

#include <fmt/format.h>

#include "shared/bundles.hpp"
#include "tensor/error.hpp"

namespace attn::tools {

PointPlan plan_points(Index sets, std::int64_t kept, const std::function<std::int64_t(int)>& work,
                      int threads, std::int64_t memory, const std::string& what) {
  PointPlan plan;
  plan.threads = threads;
  plan.over_sets = sets >= threads && threads > 1;
  plan.bytes = kept + threads * work(1);
  if (plan.over_sets && plan.bytes <= memory) return plan;
  plan.over_sets = false;
  for (; plan.threads >= 1; --plan.threads) {
    plan.bytes = kept + work(plan.threads);
    if (plan.bytes <= memory) return plan;
  }
  throw Error(Failure::memory,
              fmt::format("{} needs {} of working memory, --memory allows {}", what,
                          bytes_text(static_cast<double>(plan.bytes)),
                          bytes_text(static_cast<double>(memory))),
              fmt::format("--memory {}M", (plan.bytes >> 20) + 1));
}

}  // namespace attn::tools
