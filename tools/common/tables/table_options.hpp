#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "common/tables/table.hpp"

namespace attn::io {
class TargetWriter;
}

namespace attn::tools {

/// The columns with which the rows of every table begin: file (INPUT as given), group, batch (the
/// leading axes but the last) and head.
std::vector<TableColumn> place_columns();

/// The cells of these columns; `index` is the position of a head among the leading axes.
std::vector<Cell> place_cells(const std::string& file, const std::string& group,
                              const Shape& index);

/// How the options of a tool with tables differ from the usual ones.
struct TableHabits {
  bool own_top = false;       ///< --top also has another meaning; --sort uses its value, too
  bool writes_bundle = true;  ///< -o FILE is a bundle, unless FILE ends in .csv
  bool writes_file = true;    ///< -o FILE.csv writes the table to a file
};

/// Declares --tsv, --csv and --sort, --top unless the tool has it, and -o and --force for a tool
/// that writes tables, but no bundle. `rows` describes a row: "group, head and scheme".
void declare_table_options(cli::Declaration& declaration, const std::string& rows,
                           const TableHabits& habits = {});

/// `arguments` with `table_file` in place of `output` if a tool with --csv is to write its table
/// there (-o FILE.csv). Throws Error(usage) for options that have no effect on a table, and for any
/// other output of several INPUTs, or of a tool that writes no bundle.
cli::Arguments with_table_file(const cli::Arguments& arguments);

/// The table of a run: printed as --tsv, --csv and --sort request, and written to -o FILE.csv.
class TableOutput {
 public:
  /// Throws Error(usage) for options that contradict each other or a column that does not exist,
  /// Error(output) if FILE.csv exists and --force is not given.
  TableOutput(const cli::Arguments& arguments, std::vector<TableColumn> columns,
              const TableHabits& habits = {});

  /// Whether the table replaces the text of the report.
  bool in_place_of_text() const;

  void add(std::vector<Cell> row) { table_.add(std::move(row)); }

  /// Turns the rows so far into text, which takes less memory. The table is not sorted.
  void pack(cli::Report& report);

  /// Sorts and prints the table, and makes the content of the file. A program that runs the tool in
  /// its own process gets the table in any case.
  void print(cli::Report& report);

  /// For the outcome's commit: writes the file. Empty without one.
  std::function<void()> commit() const;

 private:
  const cli::Arguments& arguments_;
  Table table_;
  std::shared_ptr<io::TargetWriter> file_;
  std::shared_ptr<std::string> content_;
  bool packed_ = false;  // whether there is a header line already
};

}  // namespace attn::tools
