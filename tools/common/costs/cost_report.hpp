#pragma once

#include <cstdint>
#include <string>

#include "cli/report.hpp"

namespace attn::tools {

/// The costs of a run, or of one of its sections, that --dry-run reports.
struct RunCost {
  std::string work;            ///< the first line: "unas of 8 x 128 x 128 in float32"
  std::int64_t working_bytes;  ///< as planned within --memory
  double result_bytes;         ///< before compression
  bool compressed = false;     ///< whether --compress is used
  std::string arithmetic;      ///< "3.1e+06 flops"; empty: no such line
};

/// Prints the costs, and sets working_bytes and result_bytes in the report's result.
void report_run_cost(const RunCost& cost, cli::Report& report);

}  // namespace attn::tools
