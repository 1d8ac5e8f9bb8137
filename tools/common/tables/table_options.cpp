#include "common/tables/table_options.hpp"

#include <utility>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "common/frame/output_format.hpp"
#include "common/frame/text_output.hpp"
#include "common/shards/shard.hpp"
#include "io/target/target_writer.hpp"

namespace attn::tools {
namespace {

void require_free_stdout(const cli::Arguments& arguments, const std::string& option) {
  if (!arguments.flag(option)) return;
  if (arguments.json && arguments.json->empty()) {
    throw Error(Failure::usage, "--" + option + " and --json both go to standard output",
                "name a file: --json=FILE");
  }
  if (arguments.bundle_to_stdout()) {
    throw Error(Failure::usage, "--" + option + " and the bundle both go to standard output",
                "name a file: -o FILE");
  }
}

}  // namespace

std::vector<TableColumn> place_columns() { return {{"file"}, {"group"}, {"batch"}, {"head"}}; }

std::vector<Cell> place_cells(const std::string& file, const std::string& group,
                              const Shape& index) {
  std::vector<Cell> cells = {file, group, Cell(), Cell()};
  if (index.empty()) return cells;
  cells[3] = index.back();
  if (index.size() == 2) cells[2] = index.front();
  if (index.size() > 2) {
    cells[2] = fmt::format("{}", fmt::join(index.begin(), index.end() - 1, ","));
  }
  return cells;
}

void declare_table_options(cli::Declaration& declaration, const std::string& rows,
                           const TableHabits& habits) {
  declaration.section("Table")
      .flag("tsv", "Prints a table in place of the report: a header line, and a row for each " +
                       rows + ", with tabs between the values.")
      .flag("csv", std::string("The same with commas (RFC 4180).") +
                       (habits.writes_file ? " -o FILE.csv writes it to a file." : ""))
      .text("sort", "COLUMN",
            "Sorts the table by a column of --tsv, from the largest number or the first word; "
            "-COLUMN reverses the order. Without --tsv and --csv, prints the table aligned, in "
            "place of the report.");
  if (!habits.own_top) {
    declaration.integer("top", "N", "Number of rows of a sorted table to show.", 0, Index{1} << 40)
        .default_words("all");
  }
  if (habits.writes_bundle || !habits.writes_file) return;
  declaration.text("output", "FILE.csv", "Writes the table to a file, besides the report.")
      .letter('o')
      .flag("force", "Replaces an existing FILE.csv.");
}

cli::Arguments with_table_file(const cli::Arguments& arguments) {
  cli::Arguments own = arguments;
  if (!arguments.output && arguments.declared("csv") && arguments.given("output")) {
    const std::string file = arguments.text("output");
    if (foreign_ending(file) != ".csv") {
      throw Error(
          Failure::usage,
          fmt::format("--output is {}, but {} writes only tables, FILE.csv", file, arguments.tool),
          file.ends_with(".tsv")    ? "--tsv > " + file
          : file.ends_with(".json") ? "--json=" + file
                                    : "-o FILE.csv, --tsv or --json");
    }
    own.table_file = file;
    return own;
  }
  if (!arguments.output) return own;
  if (arguments.declared("csv") && foreign_ending(*arguments.output) == ".csv") {
    for (const char* const option : {"only", "compress"}) {
      if (!arguments.declared(option) || !arguments.given(option)) continue;
      throw Error(Failure::usage, fmt::format("--{} has no effect on a table", option));
    }
    own.table_file = std::exchange(own.output, std::nullopt);
  } else if (arguments.inputs.size() > 1) {
    throw Error(Failure::usage,
                fmt::format("--output is {}, but several INPUTs make no bundle", *arguments.output),
                shard_of(arguments)
                    ? "run the tool with --shard on one INPUT after the other"
                    : "-o FILE.csv writes a table; or run the tool on one INPUT after the other");
  }
  return own;
}

TableOutput::TableOutput(const cli::Arguments& arguments, std::vector<TableColumn> columns,
                         const TableHabits& habits)
    : arguments_(arguments), table_(std::move(columns)), content_(std::make_shared<std::string>()) {
  if (arguments.flag("tsv") && arguments.flag("csv")) {
    throw Error(Failure::usage, "both --tsv and --csv are given, expected one");
  }
  require_free_stdout(arguments, "tsv");
  require_free_stdout(arguments, "csv");
  if (arguments.given("sort")) {
    table_.require_column(arguments.text("sort"));
    const bool shown = arguments.flag("tsv") || arguments.flag("csv") || arguments.table_file;
    if (arguments.quiet && !shown) {
      throw Error(Failure::usage, "--sort has no effect with --quiet, which prints no table",
                  "--tsv prints the table in any case");
    }
  } else if (!habits.own_top && arguments.given("top")) {
    throw Error(Failure::usage, "--top has no effect without --sort");
  }
  if (!arguments.table_file || arguments.dry_run) return;
  file_ = open_text_output(arguments, *arguments.table_file);
}

bool TableOutput::in_place_of_text() const {
  return arguments_.flag("tsv") || arguments_.flag("csv") || arguments_.given("sort");
}

void TableOutput::print(cli::Report& report) {
  if (arguments_.given("sort")) {
    table_.sort(arguments_.text("sort"));
    if (arguments_.given("top")) table_.keep_first(arguments_.integer("top").value());
  }
  if (arguments_.given("sort") && !arguments_.flag("tsv") && !arguments_.flag("csv")) {
    report.print(table_.text());
  }
  pack(report);
}

void TableOutput::pack(cli::Report& report) {
  const bool header = !packed_;
  if (arguments_.flag("tsv")) report.print_data(table_.tsv(header));
  // A program that runs the tool gets the table beside the text.
  const bool hosted = arguments_.host && !arguments_.flag("tsv");
  if (hosted || arguments_.flag("csv")) report.print_data(table_.csv(header));
  if (file_) *content_ += table_.csv(header);
  packed_ = true;
  table_.clear();
}

std::function<void()> TableOutput::commit() const {
  if (!file_) return {};
  return [file = file_, content = content_] {
    file->append(*content);
    file->finish();
  };
}

}  // namespace attn::tools
