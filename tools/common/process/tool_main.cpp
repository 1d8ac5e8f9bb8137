#include "common/process/tool_main.hpp"

#include <malloc.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "common/frame/output_format.hpp"
#include "common/process/memory_watch.hpp"
#include "common/runs/ranks.hpp"
#include "common/runs/restart.hpp"
#include "common/shards/shard.hpp"
#include "common/tables/table_options.hpp"
#include "io/arrays/array_output.hpp"
#include "io/output.hpp"
#include "parallel/team.hpp"
#include "system/temporary.hpp"

namespace attn::tools {
namespace {

// Keeps freed blocks mapped: having the kernel clear new pages for each head would take longer than
// computing a small head.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // glibc ignores larger values
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
  // A heap for each thread would take the address space of OpenBLAS's buffers, for which OpenBLAS
  // then waits forever.
  if (memory_is_limited()) mallopt(M_ARENA_MAX, 1);
}

// If memory was short, another failure is reported as a lack of memory.
cli::Outcome run_watched(const std::function<cli::Outcome()>& run) {
  try {
    cli::Outcome outcome = run();
    require_memory();
    if (outcome.commit) {
      outcome.commit = [commit = std::move(outcome.commit), status = outcome.status] {
        try {
          commit();
          finish_with(status);
        } catch (...) {
          throw_for_memory();
        }
      };
    }
    return outcome;
  } catch (...) {
    throw_for_memory();
  }
}

}  // namespace

int tool_main(int argc, char** argv, const cli::Declaration& declaration,
              const std::function<cli::Outcome(const cli::Arguments&, cli::Report&)>& run,
              const cli::Libraries& libraries) {
  keep_freed_memory();
  watch_memory();
  io::install_cleanup_handlers(memory_was_short);
  io::show_hdf5_errors(false);
  const cli::Libraries all = [&] {
    std::vector<std::string> names = {"HDF5 " + io::hdf5_version(),
                                      "libzip " + io::libzip_version()};
    for (const std::string& name : libraries ? libraries() : std::vector<std::string>()) {
      names.push_back(name);
    }
    return names;
  };
  RankedRun ranked(declaration, std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc),
                   cli::process_environment);
  bool failed = false;
  const int status = cli::run_tool(
      argc, argv, declaration,
      [&](const cli::Arguments& arguments, cli::Report& report) {
        if (arguments.verbose && !ranked.silent()) io::show_hdf5_errors(true);
        const cli::Arguments own = with_shard(with_table_file(arguments));
        require_output_name(own);
        require_restart_options(own);
        return ranked.run(own, report, all, [&](const cli::Arguments& ranks_own) {
          return run_watched([&] { return run(ranks_own, report); });
        });
      },
      all,
      [&](const cli::FailedRun& failure) {
        failed = true;
        remove_temporaries();
        ranked.end_failed(failure);
      },
      ranked.silent());
  if (failed) {
    std::fflush(nullptr);
    _exit(status);
  }
  leave_in_order();
  return status;
}

int tool_main(int argc, char** argv, const ToolDefinition& tool) {
  return tool_main(argc, argv, tool.declare(), tool.run, tool.libraries);
}

}  // namespace attn::tools
