#include "mode_collapse_sim/point_plan.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/costs/block_plan.hpp"
#include "common/costs/cost_report.hpp"
#include "common/frame/bundles.hpp"

namespace attn::tools {

PointPlan plan_points(Index sets, Index points, std::int64_t kept,
                      const std::function<std::int64_t(int)>& work, int threads,
                      std::int64_t memory, const std::string& what) {
  const std::int64_t allowed = std::min(memory, most_bytes - 1);
  const auto bytes = [&](int times, int inside) {
    // Byte counts for more points would overflow.
    if (points > (Index{1} << 32)) return most_bytes;
    const double sum = static_cast<double>(kept) + times * static_cast<double>(work(inside));
    return static_cast<std::int64_t>(std::min(sum, static_cast<double>(most_bytes)));
  };
  PointPlan plan;
  plan.threads = threads;
  plan.over_sets = sets >= threads && threads > 1;
  plan.bytes = bytes(threads, 1);
  if (plan.over_sets && plan.bytes <= allowed) return plan;
  plan.over_sets = false;
  for (; plan.threads >= 1; --plan.threads) {
    plan.bytes = bytes(1, plan.threads);
    if (plan.bytes <= allowed) return plan;
  }
  // --memory may exceed most_bytes, at which every plan is refused.
  refuse_memory(what, plan.bytes, memory);
}

void report_points_cost(const std::string& what, const PointPlan& plan, double result_bytes,
                        double flops, cli::Report& report) {
  report_run_cost({what, plan.bytes, result_bytes, false, fmt::format("{:.3g} flops", flops)},
                  report);
  report.result()["flops"] = flops;
}

}  // namespace attn::tools
