#include "shared/point_plan.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

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

void report_points_cost(const std::string& what, const PointPlan& plan, double result_bytes,
                        double flops, cli::Report& report) {
  auto& result = report.result();
  result["working_bytes"] = plan.bytes;
  result["result_bytes"] = result_bytes;
  result["flops"] = flops;
  report.print(fmt::format(
      "{}\nworking memory  {}, and some 30 MB for the program itself\n"
      "results         {}\narithmetic      {:.3g} flops\n",
      what, bytes_text(static_cast<double>(plan.bytes)), bytes_text(result_bytes), flops));
}

}  // namespace attn::tools
