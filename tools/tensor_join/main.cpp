// tensor-join: puts the shards of a run together.

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "cli/words.hpp"
#include "common/frame/bundles.hpp"
#include "common/frame/output_format.hpp"
#include "common/process/numeric_libraries.hpp"
#include "common/process/tool_main.hpp"
#include "common/results/results.hpp"
#include "common/tables/table_options.hpp"
#include "tensor_join/input_join.hpp"
#include "tensor_join/report_join.hpp"
#include "tensor_join/shard_set.hpp"

namespace attn::tools {
namespace {

cli::Declaration declare() {
  cli::Declaration d("tensor-join", "Puts the bundles of --shard together", cli::Role::generator);
  d.words("SHARD...", "The bundles of all shards of one run, in any order", 1, -1)
      .about(
          "Tools with --shard write a part of their results into a separate bundle. Writes the "
          "same bundle as the command without --shard and with --only, to the last bit except for "
          "its history.")
      .about(
          "A shard has whole groups or, without groups, some of the heads. Shards belong to one "
          "run "
          "if their tool, version, options and input files (name, size and time of the last "
          "change) are the same. If a shard is missing, given twice, damaged or of another run, "
          "the "
          "error names it, and nothing is written.")
      .about(
          "Prints the report of explain-away-stats, lambda-solve, mode-collapse-sim and "
          "sinkhorn-iter bulk as one run would, from the figures of all heads, sets of points or "
          "problems, and repeats its warnings.")
      .text("with", "INPUT",
            "Also copies the contents of INPUT, as the command would without --only: everything "
            "except results that are no longer valid.")
      .named_inputs(
          "Also copies dataset NAME from ADDRESS, as the divided command did. --with needs each -i "
          "of that command.")
      .flag("virtual",
            "Copies as little as possible: the datasets of OUTPUT are virtual HDF5 datasets that "
            "refer to the shards, by names relative to the folder of OUTPUT. If a shard is missing "
            "later, these tools name it, and other programs read NaN, never zeros. These tools "
            "follow references to shards outside that folder only with --allow-external.")
      .allow_external()
      .report_member("shards; groups or problems", "how many were put together")
      .report_member("report",
                     "of explain-away-stats, lambda-solve, mode-collapse-sim and sinkhorn-iter "
                     "bulk: tool, params and result, as one run would report them")
      .example("tensor-join out.*-of-*.h5 -o out.h5", "After the last job of an array.")
      .example("tensor-join out.*-of-*.h5 --virtual -o out.h5", "The same without a second copy.")
      .example("tensor-join out.*-of-*.h5 --with dump.h5 -o out.h5",
               "Results beside the tensors that they were made from.")
      .exit_status(1, "what it means for the tool that wrote the shards, for all shards together")
      .exit_status(3, "a shard is missing, there twice, damaged, or of another run")
      .exit_status(4, "");
  declare_table_options(d, "row of the table that explain-away-stats or lambda-solve prints");
  return d;
}

// -o FILE.csv writes a table in place of a bundle.
void refuse_bundle_options(const cli::Arguments& arguments) {
  for (const char* const option : {"virtual", "with", "input"}) {
    if (!arguments.given(option)) continue;
    throw Error(Failure::usage, fmt::format("--{} has no effect on a table", option));
  }
}

cli::Outcome run(const cli::Arguments& arguments, cli::Report& report) {
  const std::vector<std::string> files = arguments.words();
  if (arguments.table_file) refuse_bundle_options(arguments);
  if (arguments.flag("virtual") &&
      (*arguments.output == "-" || array_format_of(*arguments.output))) {
    throw Error(
        Failure::usage,
        "--virtual makes an HDF5 file that refers to others, but --output is " + *arguments.output,
        "-o FILE.h5");
  }
  const ShardSet shards(arguments, report, files);
  require_table(arguments, shards);
  const InputJoin inputs(arguments, shards, report);
  report.result() = {{"shards", shards.size()},
                     {shards.divides_problems() ? "problems" : "groups", shards.units()}};
  const ShardSet::Warnings warnings = shards.warnings();
  cli::Outcome outcome;
  const std::string parts = cli::counted(shards.size(), "shard");
  std::string words = fmt::format("{} of {}", shards.units_text(), parts);
  if (!arguments.dry_run) {
    warn_of_unused(warnings.unused, !inputs.empty(), report);
    if (const auto reported = join_report(arguments, shards, warnings.lines, report)) {
      if (!reported->summary.empty()) words = reported->summary + ", from " + parts;
      outcome = *reported;
    } else if (const std::string stopped = shards.not_converged(); !stopped.empty()) {
      words += ", not converged in " + stopped;
      report.status("not_converged");
      outcome.status = 1;
    }
  }
  outcome.summary = words + " -> " + arguments.output.value_or(arguments.table_file.value_or(""));
  if (arguments.dry_run || !arguments.output) return outcome;
  io::OutputBundle output = open_output(arguments);
  shards.write(output, inputs.replaced());
  if (!inputs.empty()) {
    inputs.write(output);
    warn_of_left_out(warnings.outdated, report);
  }
  output.add_history(arguments.command_line, arguments.version);
  if (shards.refers_outside()) {
    report.note(*arguments.output +
                " refers to shards outside its folder: tools read it with --allow-external");
  }
  outcome.commit = commit_of(std::move(output), report);
  return outcome;
}

}  // namespace
}  // namespace attn::tools

int main(int argc, char** argv) {
  return attn::tools::tool_main(argc, argv, attn::tools::declare(), attn::tools::run,
                                attn::tools::numeric_libraries);
}
