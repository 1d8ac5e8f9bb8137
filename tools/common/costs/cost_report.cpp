#include "common/costs/cost_report.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/memory_hint.hpp"
#include "common/frame/bundles.hpp"

namespace attn::tools {

void report_run_cost(const RunCost& cost, cli::Report& report) {
  report.result()["working_bytes"] = cost.working_bytes;
  report.result()["result_bytes"] = cost.result_bytes;
  report.print(fmt::format("{}\nworking memory  {}, and {} for the program itself\n", cost.work,
                           bytes_text(static_cast<double>(cost.working_bytes)),
                           cli::memory_of_program) +
               fmt::format("results         {}{}\n", bytes_text(cost.result_bytes),
                           cost.compressed ? " before they are compressed" : ""));
  if (!cost.arithmetic.empty()) {
    report.print(fmt::format("arithmetic      {}\n", cost.arithmetic));
  }
}

}  // namespace attn::tools
