#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.hpp"
#include "io/input.hpp"
#include "io/output.hpp"

namespace attn::tools {

/// Options for opening inputs: applies --tmpdir and --allow-external, and lists files that inputs
/// refer to in the report. The report must outlive the inputs.
io::InputBundle::Options input_options(const cli::Arguments& arguments, cli::Report& report);

/// Opens INPUT and the datasets of -i; `renamed` as in io::InputBundle::Options. Throws what
/// io::InputBundle throws, and Error(usage) if a program that runs the tool gives neither: its
/// standard input is not read.
io::InputBundle open_input(const cli::Arguments& arguments, cli::Report& report,
                           std::vector<std::pair<std::string, std::string>> renamed = {});

/// The same with `input` in place of INPUT, for one of several.
io::InputBundle open_one_input(const cli::Arguments& arguments,
                               const std::optional<std::string>& input, cli::Report& report,
                               std::vector<std::pair<std::string, std::string>> renamed = {});

/// The bundle for -o, in the format of its ending, with --force, --tmpdir and --compress applied
/// and other settings as in `options`. Requires arguments.output. Throws Error(usage) if --only
/// would replace an input by its results.
io::OutputBundle open_output(const cli::Arguments& arguments,
                             io::OutputBundle::Options options = {});

/// The options that name a dataset which was never requested from `input`, "-i k" or "--map k". A
/// mistyped name would otherwise go unnoticed. `tokens` is exempt, since later tools may use it.
std::vector<std::string> unused_options(const cli::Arguments& arguments,
                                        const io::InputBundle& input);

/// Warns of such options; `copies`: the run copies the datasets of -i to its output.
void warn_of_unused(const std::vector<std::string>& options, bool copies, cli::Report& report);

/// The same for the options of a run.
void warn_of_unused(const cli::Arguments& arguments, const io::InputBundle& input,
                    cli::Report& report);

/// The output of a transform: open_output with the contents of `input` except the datasets in
/// `results` (with --only just the root's attributes), and with the command line in front of its
/// history.
io::OutputBundle open_output_like(const cli::Arguments& arguments, const io::InputBundle& input,
                                  const std::vector<std::string>& results,
                                  const io::OutputBundle::Options& options = {});

/// The cli::Outcome::commit of a complete output. Warns of objects that the output's format cannot
/// hold.
std::function<void()> commit_of(io::OutputBundle output, cli::Report& report);

/// Lists `dataset` under the inputs of the JSON report.
void report_input(cli::Report& report, const ArraySource& dataset);

/// Throws Error(memory), with a hint, if no part of `dataset` can be read within --memory.
void require_readable(const ArraySource& dataset, std::int64_t memory);

/// "8 x 2048 x 64", "scalar": a shape in a summary line.
std::string times(std::span<const Index> shape);

/// "3.0 GiB", "640 bytes".
std::string bytes_text(double bytes);

}  // namespace attn::tools
