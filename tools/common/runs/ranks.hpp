#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "attnkit/error.hpp"
#include "cli/command.hpp"
#include "common/runs/launched_rank.hpp"

namespace attn::mpi {
class ProcessRanks;
}

namespace attn::tools {

/// The exit status of a run with a rank that no longer answers (EX_OSERR of sysexits.h).
inline constexpr int rank_lost_status = 71;

/// The work that the ranks of a tool divide, for its help.
struct RankWords {
  std::string divided = "the time of each head";
  /// Advice on the longest time between two messages.
  std::string longest = "Set it above 1/64 of the time of one head.";
};

/// Declares --ranks and --rank-timeout: mpirun and srun can then divide a run of the tool. Declare
/// --shard before.
void declare_ranks(cli::Declaration& declaration, const RankWords& words = {});

/// The part of this process in a run that mpirun or srun has started several times. All processes
/// read the same inputs, divide the loops of the library (parallel/ranks.hpp), and have the same
/// results. Rank 0 writes them; the others are silent and write nothing. At most one per process.
class RankedRun {
 public:
  /// Determined by `words`, the command line, and by the environment. The run is not ranked if the
  /// tool has no --ranks, with --ranks off or --shard, or with one process only.
  RankedRun(const cli::Declaration& declaration, const std::vector<std::string>& words,
            const cli::Environment& environment);

  /// Whether another process reports this run.
  bool silent() const { return launched_ && launched_->own > 0; }

  /// Runs `run` with these arguments; without its output in ranks other than 0. Returns in rank 0
  /// only; the others end when all have computed. Throws Error(usage) without attn-mpi.so, for
  /// standard input, and if the ranks were started with different commands; also throws what `run`
  /// throws.
  cli::Outcome run(const cli::Arguments& arguments, cli::Report& report,
                   const cli::Libraries& libraries,
                   const std::function<cli::Outcome(const cli::Arguments&)>& run);

  /// Call after a failure, when the temporaries are removed: ends all ranks. Rank 0 prints the
  /// failure of another rank. Returns if no other rank has to know.
  void end_failed(const cli::FailedRun& failed);

 private:
  void start(const cli::Arguments& arguments);
  int agree(const cli::Arguments& arguments, const cli::Libraries& libraries);
  void finish(cli::Report& report);

  std::optional<LaunchedRank> launched_;  // if the run is ranked
  std::optional<Error> refused_;          // why the environment does not say it
  bool starting_ = false;
  mpi::ProcessRanks* ranks_ = nullptr;  // while they can send
};

}  // namespace attn::tools
