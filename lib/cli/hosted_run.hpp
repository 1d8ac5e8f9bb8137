#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "tensor/host_arrays.hpp"

namespace attn::cli {

/// What a command prints, of a tool that ran within the process of a program.
struct HostedRun {
  int status = 0;       ///< the exit status
  std::string message;  ///< of the error that ended the run; empty if there was none
  std::string hint;     ///< of that error
  /// The report as --json writes it, made on request.
  std::function<std::string()> report;
  std::string text;     ///< the report for people
  std::string data;     ///< tables for programs
  std::string summary;  ///< one line
  std::vector<std::string> warnings;
  std::vector<std::string> notes;
};

/// Runs a tool with the arguments `command_line`, which is checked as that of a command, on the
/// arrays of `host`. Prints nothing. An error of the run is in the result. Throws Stopped for a run
/// that was asked to stop.
HostedRun run_hosted(const std::vector<std::string>& command_line, const Declaration& declaration,
                     const std::shared_ptr<HostArrays>& host,
                     const std::function<Outcome(const Arguments&, Report&)>& run);

}  // namespace attn::cli
