#include "common/runs/restart.hpp"

#include <atomic>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/words.hpp"
#include "parallel/ranks.hpp"
#include "parallel/stop_flag.hpp"

namespace attn::tools {
namespace {

constexpr Index usual_seconds = 60;
constexpr Index most_seconds = 1'000'000;

// What exists until the run has finished or stopped.
struct Restart {
  Restart(const cli::Arguments& arguments, cli::Report& report)
      : requests(catch_stops(arguments, !is_first_rank())), checkpoint(arguments, report) {}

  static bool is_first_rank() {
    const Ranks* const ranks = Ranks::current();
    return ranks == nullptr || ranks->own() == 0;
  }

  std::shared_ptr<StopRequests> requests;
  Checkpoint checkpoint;
};

// Runs `body`, and returns whether it was stopped by a signal: to this process, or to any rank.
bool is_stopped(const std::function<void()>& body) {
  Ranks* const ranks = Ranks::current();
  std::atomic<bool>& asked = StopRequests::asked();
  const StopFlag::Use obey(&asked);
  if (ranks != nullptr) ranks->begin_stoppable(asked);
  bool stopped = false;
  try {
    body();
  } catch (const Stopped&) {
    stopped = true;
  }
  return ranks != nullptr ? ranks->end_stoppable(stopped) : stopped;
}

}  // namespace

void declare_requeue_status(cli::Declaration& declaration, const std::string& writes) {
  declaration.integer("requeue-status", "N",
                      "Exit status after SIGTERM, SIGUSR1, SIGUSR2 or SIGXCPU, at which the run " +
                          writes + ". A second signal ends it at once.",
                      1, 255, cli::stopped_status);
  declaration.exit_status(cli::stopped_status,
                          "a signal stopped the run; the same command continues it");
}

void declare_restart(cli::Declaration& declaration) {
  declaration
      .text("checkpoint", "FILE",
            "Saves the progress of the run in FILE. If the run is stopped or killed, the same "
            "command continues from there, to the same bytes. A finished run removes FILE. With "
            "--shard, FILE gets the shard's numbers as the output's name does.")
      .number("checkpoint-every", "S",
              "Seconds between writes of FILE, or 50 times the duration of a write if that is "
              "longer; 0: no waiting.",
              {0, static_cast<double>(most_seconds)}, static_cast<double>(usual_seconds));
  declare_requeue_status(declaration, "writes the checkpoint and ends");
}

bool checkpoints(const cli::Arguments& arguments) {
  return arguments.declared("checkpoint") && arguments.given("checkpoint");
}

void require_restart_options(const cli::Arguments& arguments) {
  if (checkpoints(arguments)) return require_checkpoint_name(arguments);
  if (!arguments.declared("checkpoint")) return;
  for (const char* const name : {"checkpoint-every", "requeue-status"}) {
    if (!arguments.given(name)) continue;
    throw Error(Failure::usage, fmt::format("--{} has an effect only with --checkpoint", name));
  }
}

int requeue_status(const cli::Arguments& arguments) {
  return static_cast<int>(*arguments.integer("requeue-status"));
}

bool can_be_stopped(const cli::Arguments& arguments) {
  if (!arguments.declared("requeue-status")) return false;
  return !arguments.declared("checkpoint") || checkpoints(arguments);
}

std::shared_ptr<StopRequests> catch_stops(const cli::Arguments& arguments, bool silent) {
  static std::weak_ptr<StopRequests> caught;
  std::shared_ptr<StopRequests> requests = caught.lock();
  if (requests) return requests;
  const char* const line =
      arguments.quiet || silent ? nullptr : "stopped by a signal; the same command goes on";
  requests = std::make_shared<StopRequests>(requeue_status(arguments), line);
  caught = requests;
  return requests;
}

std::string stopped_by() {
  const std::string signal = StopRequests::signal_name();
  return "stopped by " + (signal.empty() ? "a signal to another rank" : signal);
}

void require_no_checkpoint(const cli::Arguments& arguments, const std::string& result) {
  if (!checkpoints(arguments)) return;
  throw Error(Failure::usage,
              "--checkpoint cannot keep the result " + result +
                  ", which has a number for each query and key",
              "emit the potentials, from which a short run computes it");
}

cli::Outcome run_with_restarts(const cli::Arguments& arguments, cli::Report& report,
                               const std::string& unit,
                               const std::function<cli::Outcome(Checkpoint*)>& run) {
  if (!checkpoints(arguments)) return run(nullptr);
  const auto restart = std::make_shared<Restart>(arguments, report);
  Checkpoint& checkpoint = restart->checkpoint;
  if (const auto done = checkpoint.units_done(); done > 0 || checkpoint.holds_state()) {
    const std::string within = checkpoint.holds_state() ? fmt::format("within a {}, ", unit) : "";
    report.note(
        fmt::format("{}: goes on {}after {}", checkpoint.file(), within, cli::counted(done, unit)));
  }
  cli::Outcome outcome;
  const bool stopped = is_stopped([&] { outcome = run(&checkpoint); });
  if (!stopped) {
    // A signal that comes later changes nothing: the run is about to end.
    outcome.commit = [restart, commit = std::move(outcome.commit)] {
      if (commit) commit();
      restart->checkpoint.remove();
    };
  } else {
    restart->requests->outlast();
    checkpoint.write();
    report.result() = nlohmann::ordered_json::object();
    report.drop_text();
    outcome = {};
    outcome.status = requeue_status(arguments);
    outcome.stopped = true;
    outcome.summary = fmt::format("{}: {} holds {}{}; the same command goes on", stopped_by(),
                                  checkpoint.file(), cli::counted(checkpoint.units_done(), unit),
                                  checkpoint.has_state() ? " and a part of the next" : "");
  }
  return outcome;
}

}  // namespace attn::tools
