#pragma once

#include <functional>
#include <memory>
#include <string>

#include "io/arrays/array_file.hpp"
#include "io/input.hpp"

namespace attn::io {

/// Whether the name of a file says that it is a table of text: .csv or .tsv, in any case.
bool is_called_table(const std::string& file);

/// Reads a table of numbers (.csv, .tsv) as one float64 matrix (lines, cells). Lines are read once,
/// and the numbers go to an unnamed temporary in `tmpdir`, so that memory does not grow with them.
///
/// Cells are separated by tabs in a .tsv; elsewhere by the first of tab, semicolon and comma that
/// the first line has. Blanks around a cell and quotes do not count, blank lines are skipped, and
/// nan and inf are numbers. The first line is a header if it has no number, or if its first cell is
/// empty.
///
/// `on_note` hears of a header. It also hears of the signs of an index that pandas has written: a
/// header without a first name, or a first line 0, 1, 2, ... Throws Error(input) with line and
/// column for a cell that is not a number or is beyond float64, with the line for another number of
/// cells than in the first, and if there are no numbers; Error(output) if the temporary cannot be
/// written.
std::shared_ptr<const ArrayFile> read_table(int descriptor, const std::string& label,
                                            const std::string& tmpdir,
                                            const std::function<void(const TableNote&)>& on_note);

}  // namespace attn::io
