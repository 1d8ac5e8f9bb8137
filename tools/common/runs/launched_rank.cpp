#include "common/runs/launched_rank.hpp"

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "cli/values.hpp"

namespace attn::tools {
namespace {

Index whole_number_in(const cli::Environment& environment, const std::string& name) {
  const std::string text = environment(name).value_or("");
  const std::optional<Index> number = cli::to_integer(text);
  if (!number || *number < 0) {
    throw Error(Failure::usage, fmt::format("{} is '{}', expected a whole number", name, text));
  }
  return *number;
}

}  // namespace

std::optional<LaunchedRank> launched_rank(const cli::Environment& environment) {
  struct Engine {
    const char* rank;
    const char* count;  // set if there are ranks
  };
  // mpirun inside a job of Slurm starts one daemon per node by srun, whose variables its ranks
  // inherit. SLURM_NTASKS says nothing: a batch script has it, and SLURM_PROCID 0, without any
  // step.
  for (const Engine& engine : {Engine{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                               Engine{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}}) {
    if (!environment(engine.count)) continue;
    return LaunchedRank{engine.rank, whole_number_in(environment, engine.rank),
                        whole_number_in(environment, engine.count)};
  }
  const std::string alone = "PMIX_RANK";
  if (!environment(alone)) return std::nullopt;
  return LaunchedRank{alone, whole_number_in(environment, alone)};
}

}  // namespace attn::tools
