#pragma once

#include <functional>
#include <memory>

#include "cli/command.hpp"
#include "common/runs/checkpoint.hpp"
#include "system/stop_requests.hpp"

namespace attn::tools {

/// Declares --checkpoint, --checkpoint-every and --requeue-status.
void declare_restart(cli::Declaration& declaration);

/// Declares --requeue-status, and what the status means. `writes` says what a signal makes the run
/// do: "writes the checkpoint".
void declare_requeue_status(cli::Declaration& declaration, const std::string& writes);

/// Whether --checkpoint is given; false for a tool without it.
bool checkpoints(const cli::Arguments& arguments);

/// Throws Error(usage) for options of restarts without --checkpoint, and the errors of
/// require_checkpoint_name.
void require_restart_options(const cli::Arguments& arguments);

/// The value of --requeue-status.
int requeue_status(const cli::Arguments& arguments);

/// Whether the run ends with that status if a signal stops it: there is a checkpoint, or the output
/// is one.
bool can_be_stopped(const cli::Arguments& arguments);

/// Catches the signals that stop such a run, as long as a result of this function lives; all
/// results are the same object. Until StopRequests::work_begins() the process ends at once with
/// that status, and with a line on standard error unless it is `silent`.
std::shared_ptr<StopRequests> catch_stops(const cli::Arguments& arguments, bool silent);

/// "stopped by SIGUSR1", or whatever asked for the stop, for a summary.
std::string stopped_by();

/// Throws Error(usage) if --checkpoint is given: `result`, a number for each query and key, is
/// written as it is made, and would not fit into a checkpoint.
void require_no_checkpoint(const cli::Arguments& arguments, const std::string& result);

/// Calls run(checkpoint), with null unless --checkpoint is given. Messages count units of work as
/// "3 heads" for the `unit` "head". With --checkpoint, SIGTERM, SIGUSR1,
/// SIGUSR2 and SIGXCPU stop the run: long loops throw Stopped, the checkpoint is written,
/// and the outcome has the status of --requeue-status; ranks stop together. Before
/// StopRequests::work_begins() the process ends at once with that status. A run that finishes
/// removes its checkpoint after its commit.
cli::Outcome run_with_restarts(const cli::Arguments& arguments, cli::Report& report,
                               const std::string& unit,
                               const std::function<cli::Outcome(Checkpoint*)>& run);

}  // namespace attn::tools
