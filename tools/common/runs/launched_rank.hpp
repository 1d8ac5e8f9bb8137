#pragma once

#include <optional>
#include <string>

#include "cli/resolve.hpp"

namespace attn::tools {

/// The place of this process among those that mpirun or srun has started together.
struct LaunchedRank {
  std::string variable;  ///< the variable that names it
  Index own = 0;         ///< from 0
  std::optional<Index> count = {};
};

/// The rank by the environment: OMPI_COMM_WORLD_RANK and _SIZE, else SLURM_PROCID and
/// SLURM_STEP_NUM_TASKS, else PMIX_RANK, which does not tell the number of ranks; empty if none is
/// set. Throws Error(usage) if one is not a whole number.
std::optional<LaunchedRank> launched_rank(const cli::Environment& environment);

}  // namespace attn::tools
