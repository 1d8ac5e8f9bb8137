#include "common/runs/ranks.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <span>
#include <thread>

#include <fmt/format.h>
#include <boost/crc.hpp>

#include "attnkit/error.hpp"
#include "common/frame/stream_input.hpp"
#include "common/runs/restart.hpp"
#include "mpi/rank_plugin.hpp"
#include "system/peak_memory.hpp"
#include "system/raw_text.hpp"
#include "system/temporary.hpp"

namespace attn::tools {
namespace {

// "attn-compute: error: ..." becomes "attn-compute: error: rank 3: ...".
std::string of_rank(int rank, std::string lines) {
  const std::string mark = ": error: ";
  const std::size_t at = lines.find(mark);
  if (at == std::string::npos) return lines;
  return lines.insert(at + mark.size(), fmt::format("rank {}: ", rank));
}

// One thread ends all ranks: the helper that learns of another rank's failure, or the thread that
// fails.
[[noreturn]] void end_all(mpi::ProcessRanks& ranks, int status, const std::string& lines) {
  static std::atomic_flag ending = ATOMIC_FLAG_INIT;
  while (ending.test_and_set()) pause();
  remove_temporaries();
  write_raw({lines.c_str()});
  ranks.abort(status);
  _exit(status);  // unreachable
}

void report_rank(mpi::ProcessRanks& own, int rank, int status, const char* lines) {
  // If all ranks have this error, rank 0 prints it itself within this time.
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  end_all(own, status, of_rank(rank, lines));
}

// Rank 0 reports for all, unless it does not answer either.
void lose_rank(mpi::ProcessRanks& own, int rank, double timeout_s) {
  const char* const tool = program_invocation_short_name;
  const std::string lines = fmt::format(
      "{0}: error: rank {1} has not answered for {2} seconds\n"
      "{0}: hint: it may itself wait for another one; --rank-timeout SECONDS, if ranks may compute "
      "so long between two messages\n",
      tool, rank, timeout_s);
  if (own.own() != 0) own.fail(rank_lost_status, lines.c_str());
  end_all(own, rank_lost_status, own.own() == 0 ? lines : of_rank(own.own(), lines));
}

void end_stuck(double timeout_s) {
  remove_temporaries();
  const std::string line =
      fmt::format("{}: error: not all ranks have started and ended MPI within {} seconds\n",
                  program_invocation_short_name, timeout_s);
  write_raw({line.c_str()});
  _exit(rank_lost_status);
}

// bin/attn-compute and libexec/attnkit/attn-mpi.so lie side by side, installed or not.
std::string plugin_path() {
  std::error_code failed;
  const std::filesystem::path tool = std::filesystem::read_symlink("/proc/self/exe", failed);
  return tool.parent_path().parent_path() / "libexec" / "attnkit" / "attn-mpi.so";
}

mpi::ProcessRanks* load_ranks(const LaunchedRank& launched, double timeout_s) {
  const std::string path = plugin_path();
  // RTLD_GLOBAL: Open MPI's own plug-ins look for its symbols.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    const bool absent = access(path.c_str(), F_OK) != 0;
    throw Error(Failure::usage,
                fmt::format("{} names several ranks, but {}", launched.variable,
                            absent ? "this build has no " + path : std::string(dlerror())),
                "cmake -DATTN_MPI=ON builds it; --ranks off or --shard: each process for itself");
  }
  using Start = mpi::ProcessRanks*(const mpi::Settings*);
  void* const symbol = dlsym(library, "attn_start_ranks");
  Start* start = nullptr;
  std::memcpy(&start, &symbol, sizeof(start));
  mpi::Settings settings;
  settings.timeout_s = timeout_s;
  // Rank 0 reports first; the others report only if rank 0 does not.
  settings.start_timeout_s = timeout_s + (launched.own == 0 ? 0 : 2);
  settings.on_stuck = end_stuck;
  settings.on_lost = lose_rank;
  settings.on_failed = report_rank;
  mpi::ProcessRanks* const ranks = start == nullptr ? nullptr : start(&settings);
  if (ranks == nullptr) throw Error(Failure::usage, path + " does not work with this MPI");
  return ranks;
}

void require_file_inputs(const cli::Arguments& arguments) {
  const auto stream = stream_input(arguments);
  if (!stream) return;
  throw Error(Failure::usage,
              "ranks read files, but " + *stream + ", which only one of them could read",
              "name a file; or --ranks off");
}

// The checksum has to notice mistakes, not attacks.
std::uint32_t digest(const std::vector<std::string>& texts) {
  boost::crc_32_type crc;
  for (const std::string& text : texts) crc.process_bytes(text.c_str(), text.size() + 1);
  return crc.checksum();
}

// --shard, and --ranks off: each process works for itself.
bool works_alone(const std::vector<std::string>& words) {
  for (std::size_t n = 0; n < words.size(); ++n) {
    const std::string& word = words[n];
    if (word == "--shard" || word.starts_with("--shard=") || word == "--ranks=off") return true;
    if (word == "--ranks" && n + 1 < words.size() && words[n + 1] == "off") return true;
  }
  return false;
}

}  // namespace

void declare_ranks(cli::Declaration& declaration, const RankWords& words) {
  const std::string alone = declaration.has_option("shard") ? "off, and --shard" : "off";
  declaration.section("Ranks")
      .choice("ranks", {"auto", "off"},
              "auto: divides " + words.divided +
                  " among the ranks: the processes that mpirun or srun --mpi=pmix has started "
                  "together. Each rank reads all inputs and needs the memory of a whole run: start "
                  "one per node, with threads within. Rank 0 writes and reports. Results do not "
                  "depend on the number of ranks. " +
                  alone + ": each process works for itself.",
              "auto")
      .number("rank-timeout", "SECONDS",
              "Ends the run if a rank waits this long for another rank. " + words.longest,
              cli::Declaration::Range::positive(), 3600.0)
      .exit_status(rank_lost_status, "a rank does not answer (see --rank-timeout)");
}

RankedRun::RankedRun(const cli::Declaration& declaration, const std::vector<std::string>& words,
                     const cli::Environment& environment) {
  if (!declaration.has_option("ranks") || works_alone(words)) return;
  try {
    launched_ = launched_rank(environment);
  } catch (const Error& error) {
    refused_ = error;
  }
  if (launched_ && launched_->count.value_or(2) < 2) launched_.reset();
}

cli::Outcome RankedRun::run(const cli::Arguments& arguments, cli::Report& report,
                            const cli::Libraries& libraries,
                            const std::function<cli::Outcome(const cli::Arguments&)>& run) {
  if (refused_) throw Error(*refused_);
  if (!launched_) return run(arguments);
  cli::Arguments own = arguments;
  if (arguments.dry_run) {
    own.ranks = static_cast<int>(launched_->count.value_or(1));
    return silent() ? cli::Outcome{} : run(own);
  }
  require_file_inputs(arguments);
  // MPI takes long to start.
  const auto stops = can_be_stopped(arguments) ? catch_stops(arguments, silent()) : nullptr;
  start(arguments);
  own.ranks = ranks_->count();
  own.threads = agree(arguments, libraries);
  if (silent()) {
    own.only = true;
    own.drops_output = true;
    own.progress = cli::Arguments::Progress::never;
    if (own.table_file) own.table_file = "/dev/null";
  }
  const Ranks::Use use(ranks_);
  cli::Outcome outcome = run(own);
  finish(report);
  return outcome;
}

void RankedRun::start(const cli::Arguments& arguments) {
  starting_ = true;
  mpi::ProcessRanks* const ranks = load_ranks(*launched_, arguments.number("rank-timeout").value());
  // PMIX_RANK alone does not tell the number of ranks.
  if (!launched_->count && launched_->own != ranks->own()) {
    throw Error(Failure::usage,
                fmt::format("{} says rank {}, but MPI says rank {}", launched_->variable,
                            launched_->own, ranks->own()),
                "unset the variable, or --ranks off");
  }
  starting_ = false;
  ranks_ = ranks;
  if (launched_->count && *launched_->count != ranks_->count()) {
    throw Error(Failure::usage,
                fmt::format("{} is one of {} ranks, but MPI knows {}", launched_->variable,
                            *launched_->count, ranks_->count()),
                "with Slurm: srun --mpi=pmix; or --ranks off");
  }
}

// The smallest number of threads of a rank, which decides how a head is computed.
int RankedRun::agree(const cli::Arguments& arguments, const cli::Libraries& libraries) {
  struct Settings {
    std::uint32_t command;
    std::uint32_t libraries;
    std::int64_t threads;
  };
  const Settings own{digest({arguments.command_line, arguments.version}), digest(libraries()),
                     arguments.threads};
  const std::vector<Settings> all = gathered(*ranks_, own);
  int threads = arguments.threads;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const char* const differs = all[rank].command != all[0].command ? "another command or version"
                                : all[rank].libraries != all[0].libraries
                                    ? "another CPU or other libraries"
                                    : nullptr;
    if (differs != nullptr) {
      throw Error(Failure::usage,
                  fmt::format("rank {} has {} than rank 0: results would differ", rank, differs));
    }
    threads = std::min(threads, static_cast<int>(all[rank].threads));
  }
  return threads;
}

void RankedRun::finish(cli::Report& report) {
  using Costs = cli::Report::RankCosts;
  report.ran_on_ranks(gathered(*ranks_, Costs{ranks_->sent_bytes(), peak_rss_bytes()}));
  ranks_->finish();
  ranks_ = nullptr;
  if (!silent()) return;
  remove_temporaries();
  _exit(0);
}

void RankedRun::end_failed(const cli::FailedRun& failed) {
  if (ranks_ != nullptr) {
    if (silent()) ranks_->fail(failed.status, failed.lines.c_str());
    // Rank 0 has printed its own lines.
    end_all(*ranks_, failed.status, silent() ? of_rank(ranks_->own(), failed.lines) : "");
  }
  if (!silent()) return;
  // Rank 0 has failed in the same way, reports this, and ends all ranks. A process reports its
  // failure only if it alone cannot start.
  if (!starting_) _exit(0);
  std::this_thread::sleep_for(std::chrono::seconds(2));
  write_raw({of_rank(static_cast<int>(launched_->own), failed.lines).c_str()});
}

}  // namespace attn::tools
