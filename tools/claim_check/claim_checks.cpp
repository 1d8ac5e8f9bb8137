#include "claim_check/claim_checks.hpp"

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "attnkit/error.hpp"
#include "claim_check/claim_cache.hpp"
#include "cli/progress.hpp"
#include "cli/words.hpp"
#include "parallel/parallel_for.hpp"

namespace attn::tools {
std::string tool_folder() {
  std::error_code failed;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed) throw Error(Failure::input, "/proc/self/exe cannot be read: " + failed.message());
  return self.parent_path().string();
}

ClaimChecks::ClaimChecks(const cli::Arguments& arguments)
    : arguments_(arguments), scratch_(arguments.tmpdir) {
  // If inherited as ignored, it would keep this process from waiting for its children.
  std::signal(SIGCHLD, SIG_DFL);
  place_.keeps = arguments.given("keep");
  place_.folder = place_.keeps ? arguments.text("keep") : scratch_.path();
  place_.tools = tool_folder();
  std::filesystem::create_directory(work_folder());
}

// No claim has this id.
std::string ClaimChecks::work_folder() const { return scratch_.path() + "/~work"; }

void ClaimChecks::run_together(std::span<const Claim> claims, const std::vector<std::size_t>& which,
                               std::vector<ClaimResult>& results) {
  if (which.empty()) return;
  const Index most = static_cast<Index>(which.size());
  const Index jobs =
      std::clamp<Index>(arguments_.integer("jobs").value_or(arguments_.threads), 1, most);
  cli::Progress progress(arguments_, "checking", static_cast<double>(most), "claims");
  const auto run = [&](std::size_t n) {
    results[n] = run_claim(claims[n], place_);
    progress.advance(1);
  };
  std::vector<std::size_t> together;
  for (const std::size_t n : which) {
    if (!claims[n].alone) together.push_back(n);
  }
  place_.threads = static_cast<int>(std::max<Index>(1, arguments_.threads / jobs));
  parallel_for(static_cast<Index>(together.size()), static_cast<int>(jobs),
               [&](Index item, int) { run(together[static_cast<std::size_t>(item)]); });
  place_.threads = arguments_.threads;
  for (const std::size_t n : which) {
    if (claims[n].alone) run(n);
  }
}

std::vector<ClaimResult> ClaimChecks::run(std::span<const Claim> claims, cli::Report& report) {
  std::vector<ClaimResult> results(claims.size());
  std::optional<ClaimCache> cache;
  if (arguments_.given("cache")) cache.emplace(arguments_.text("cache"), claims, place_);
  std::vector<std::size_t> unknown;
  for (std::size_t n = 0; n < claims.size(); ++n) {
    auto known = cache ? cache->find(claims[n]) : std::nullopt;
    if (known) {
      results[n] = std::move(*known);
    } else {
      unknown.push_back(n);
    }
  }
  if (cache && !unknown.empty()) {
    const std::string problem = tracing_problem(work_folder());
    if (problem.empty()) {
      place_.traces = work_folder();
    } else {
      report.warn("--cache keeps no claim, as strace cannot tell what a command reads: " + problem);
    }
  }
  run_together(claims, unknown, results);
  for (const std::size_t n : unknown) {
    if (!cache) continue;
    cache->keep(claims[n], results[n]);
    const std::string& why = results[n].not_kept;
    if (arguments_.verbose && !why.empty()) {
      report.note(claims[n].id + " is not kept in the cache: " + cli::one_line(why));
    }
  }
  return results;
}

}  // namespace attn::tools
