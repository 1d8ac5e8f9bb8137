#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.hpp"
#include "io/input.hpp"
#include "io/output.hpp"

namespace attn::tools {

/// How inputs are opened: with --tmpdir and --allow-external in force, and files that they lead to
/// named in the report, which must outlive what is opened.
io::InputBundle::Options input_options(const cli::Arguments& arguments, cli::Report& report);

/// What the user named as INPUT and with -i, opened; `renamed` as io::InputBundle::Options has it.
/// Usage errors and unreadable files throw as io::InputBundle says.
io::InputBundle open_input(const cli::Arguments& arguments, cli::Report& report,
                           std::vector<std::pair<std::string, std::string>> renamed = {});

/// The bundle for -o, with --force, --tmpdir and --compress in force, the rest as in `options`.
/// Requires arguments.output.
io::OutputBundle open_output(const cli::Arguments& arguments,
                             io::OutputBundle::Options options = {});

/// Warns of datasets that -i names and nothing has asked `input` for: a slip of the pen would only
/// be copied. `tokens` are for whoever reports on the keys, here or down the pipe.
void warn_of_unused(const cli::Arguments& arguments, const io::InputBundle& input,
                    cli::Report& report);

/// What a transform writes into: open_output, holding what `input` holds except the datasets in
/// `results` (of it the root's attributes alone with --only), and with the command line in front of
/// its history.
io::OutputBundle open_output_like(const cli::Arguments& arguments, const io::InputBundle& input,
                                  const std::vector<std::string>& results,
                                  const io::OutputBundle::Options& options = {});

/// What cli::Outcome::commit is to be for an OutputBundle or ArrayOutput that is complete.
template <class Output>
std::function<void()> commit_of(Output output) {
  const auto kept = std::make_shared<Output>(std::move(output));
  return [kept] { kept->commit(); };
}

/// Lists `dataset` under the inputs of the JSON report.
void report_input(cli::Report& report, const io::InputDataset& dataset);

/// Throws Error(memory), with a hint, where no part of `dataset` can be read within --memory.
void require_readable(const io::InputDataset& dataset, std::int64_t memory);

/// "8 x 2048 x 64", "scalar": a shape in a summary line.
std::string times(const Shape& shape);

/// "3.0 GiB", "640 bytes".
std::string bytes_text(double bytes);

/// The main of every tool of the project: cli::run_tool with what input and output need around it
/// (temporaries removed on a signal or a failure, HDF5's own messages with -v only, after a
/// failure an end by _exit, so that HDF5 does not try again to write what could not be written).
/// `libraries` is what --version shows besides HDF5 and libzip: "OpenBLAS 0.3.21".
int tool_main(int argc, char** argv, const cli::Declaration& declaration,
              const std::function<cli::Outcome(const cli::Arguments&, cli::Report&)>& run,
              std::vector<std::string> libraries = {});

}  // namespace attn::tools
