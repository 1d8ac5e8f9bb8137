#include "common/frame/bundles.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "common/frame/output_format.hpp"
#include "io/address.hpp"

namespace attn::tools {
namespace {

std::string kind_name(io::FollowedSource::Kind kind) {
  using Kind = io::FollowedSource::Kind;
  if (kind == Kind::virtual_dataset) return "virtual";
  if (kind == Kind::checkpoint_part) return "checkpoint part";
  return kind == Kind::external_link ? "external link" : "raw storage";
}

// The datasets of an input that becomes an output with results alone would be lost.
void require_kept_inputs(const cli::Arguments& arguments) {
  std::vector<std::string> inputs = arguments.inputs;
  if (arguments.input) inputs.push_back(*arguments.input);
  for (const auto& [name, address] : arguments.named_inputs) inputs.push_back(address);
  for (const std::string& input : inputs) {
    const std::string file = io::parse_address(input).file;
    std::error_code none;
    if (file == "-" || !std::filesystem::is_regular_file(file, none)) continue;
    if (!std::filesystem::equivalent(file, *arguments.output, none)) continue;
    throw Error(Failure::usage,
                fmt::format("-o {}: this input would keep none of its datasets with --only",
                            *arguments.output),
                "another file for -o, or leave out --only");
  }
}

}  // namespace

io::InputBundle::Options input_options(const cli::Arguments& arguments, cli::Report& report) {
  io::InputBundle::Options options;
  options.tmpdir = arguments.tmpdir;
  options.allow_external = arguments.allow_external;
  options.on_source = [&report](const io::FollowedSource& source) {
    report.source(source.address, kind_name(source.kind), source.files);
  };
  options.on_written = [&report](const std::string& file) {
    report.warn(file + " is still being written (SWMR), and is read as it is now");
  };
  return options;
}

io::InputBundle open_input(const cli::Arguments& arguments, cli::Report& report,
                           std::vector<std::pair<std::string, std::string>> renamed) {
  return open_one_input(arguments, arguments.input, report, std::move(renamed));
}

io::InputBundle open_one_input(const cli::Arguments& arguments,
                               const std::optional<std::string>& input, cli::Report& report,
                               std::vector<std::pair<std::string, std::string>> renamed) {
  if (arguments.host && input == "-") {
    throw Error(Failure::usage, "there are no arrays and no file to read");
  }
  io::InputBundle::Options options = input_options(arguments, report);
  options.input = input;
  options.named = arguments.named_inputs;
  options.host = arguments.host;
  options.renamed = std::move(renamed);
  return io::InputBundle(options);
}

io::OutputBundle open_output(const cli::Arguments& arguments, io::OutputBundle::Options options) {
  options.host = arguments.host;
  if (options.host) return io::OutputBundle(options);
  if (arguments.only && !arguments.drops_output) require_kept_inputs(arguments);
  options.target = arguments.drops_output ? "/dev/null" : arguments.output.value();
  options.holds_numbers = !arguments.drops_output;
  options.force = arguments.force;
  options.tmpdir = arguments.tmpdir;
  options.deflate = arguments.compress;
  if (!arguments.drops_output) options.arrays = array_format_of(*arguments.output);
  return io::OutputBundle(options);
}

io::OutputBundle open_output_like(const cli::Arguments& arguments, const io::InputBundle& input,
                                  const std::vector<std::string>& results,
                                  const io::OutputBundle::Options& options) {
  io::OutputBundle output = open_output(arguments, options);
  if (arguments.only) {
    output.copy_attributes_from(input);
  } else {
    output.copy_from(input, results);
  }
  output.add_history(arguments.command_line, arguments.version);
  return output;
}

std::function<void()> commit_of(io::OutputBundle output, cli::Report& report) {
  const auto kept = std::make_shared<io::OutputBundle>(std::move(output));
  const std::vector<std::string> left_out = kept->finish();
  if (!left_out.empty()) {
    report.warn(fmt::format("{} cannot hold {}", kept->description(), fmt::join(left_out, ", ")));
  }
  return [kept] { kept->commit(); };
}

std::vector<std::string> unused_options(const cli::Arguments& arguments,
                                        const io::InputBundle& input) {
  std::vector<std::string> options;
  for (const std::string& name : input.unused_names()) {
    if (name == "tokens") continue;
    const bool named = std::any_of(arguments.named_inputs.begin(), arguments.named_inputs.end(),
                                   [&](const auto& entry) { return entry.first == name; });
    // A map names q, k and v in one go, though column sums take no v.
    if (name == "v" && !named) continue;
    options.push_back((named ? "-i " : "--map ") + name);
  }
  return options;
}

void warn_of_unused(const std::vector<std::string>& options, bool copies, cli::Report& report) {
  for (const std::string& option : options) {
    const bool copied = copies && option.starts_with("-i ");
    report.warn_of_whole(option + ": this computation does not use it" +
                         (copied ? ", it is only copied" : ""));
  }
}

void warn_of_unused(const cli::Arguments& arguments, const io::InputBundle& input,
                    cli::Report& report) {
  const bool copies = arguments.output && !arguments.only && !arguments.dry_run;
  warn_of_unused(unused_options(arguments, input), copies, report);
}

void report_input(cli::Report& report, const ArraySource& dataset) {
  report.input(dataset.name(), dataset.address(), dataset.shape(), dataset.type());
}

void require_readable(const ArraySource& dataset, std::int64_t memory) {
  const std::int64_t needed = dataset.bytes_at_once();
  if (needed <= memory) return;
  throw Error(
      Failure::memory,
      fmt::format("{} is compressed in chunks of {}, each read as a whole, but --memory allows {}",
                  dataset.address(), bytes_text(static_cast<double>(needed)),
                  bytes_text(static_cast<double>(memory))),
      fmt::format("smaller chunks: h5repack -l NAME:CHUNK=..., or --memory {}M",
                  (needed >> 20) + 1));
}

std::string times(std::span<const Index> shape) {
  if (shape.empty()) return "scalar";
  return fmt::format("{}", fmt::join(shape, " x "));
}

std::string bytes_text(double bytes) {
  const char* const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(units)) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} bytes", bytes)
                   : fmt::format("{:.1f} {}", bytes, units[unit]);
}

}  // namespace attn::tools
