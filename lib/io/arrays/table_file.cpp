#include "io/arrays/table_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "attnkit/error.hpp"
#include "system/system_reason.hpp"
#include "system/unnamed_file.hpp"

namespace attn::io {
namespace {

constexpr std::size_t table_piece = std::size_t{1} << 16;
constexpr std::size_t longest_cell = 4096;
constexpr std::size_t most_names = 8;  // that a note shows

bool has_ending(std::string_view file, std::string_view ending) {
  return file.size() >= ending.size() &&
         std::equal(ending.rbegin(), ending.rend(), file.rbegin(), [](char wanted, char c) {
           return wanted == (c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
         });
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

/// Infinite for a finite number beyond float64, as inf is written only as a word.
std::optional<double> number_in(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (stopped != end || error == std::errc::invalid_argument) return std::nullopt;
  // The number is too large, or so small that it is 0.
  if (error == std::errc::result_out_of_range)
    return std::strtod(std::string(text).c_str(), nullptr);
  return value;
}

std::string shown(std::string_view cell) {
  constexpr std::size_t most = 40;
  return cell.size() > most ? std::string(cell.substr(0, most)) + "..." : std::string(cell);
}

class TableReader {
 public:
  TableReader(int descriptor, const std::string& label, const std::string& tmpdir,
              const std::function<void(const TableNote&)>& on_note)
      : descriptor_(descriptor),
        label_(label),
        folder_(temporary_folder(tmpdir)),
        on_note_(on_note),
        temporary_(folder_) {
    numbers_.reserve(table_piece / sizeof(double));
  }

  StoredArray read() {
    std::vector<char> piece(table_piece);
    for (off_t at = 0;; at += static_cast<off_t>(table_piece)) {
      const std::size_t got = read_piece(piece, at);
      std::string_view text(piece.data(), got);
      constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
      if (at == 0 && text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
      if (at == 0) find_delimiter(text);
      for (const char c : text) take(c);
      if (got < table_piece) break;
    }
    if (!cell_.empty() || column_ > 0 || quoted_) end_line();
    if (rows_ == 0) throw Error(Failure::input, label_ + " has no numbers", delimiter_hint());
    write_numbers();
    if (note_) on_note_(*note_);
    return matrix();
  }

 private:
  std::size_t read_piece(std::vector<char>& piece, off_t at) const {
    std::size_t done = 0;
    while (done < piece.size()) {
      const std::size_t got =
          read_start(descriptor_, label_, reinterpret_cast<unsigned char*>(piece.data()) + done,
                     piece.size() - done, at + static_cast<off_t>(done));
      if (got == 0) break;
      done += got;
    }
    return done;
  }

  void find_delimiter(std::string_view text) {
    if (has_ending(label_, ".tsv")) {
      delimiter_ = '\t';
      return;
    }
    const std::size_t first = std::min(text.find_first_not_of(" \r\n"), text.size());
    bool quoted = false;
    std::string unquoted;
    for (const char c : text.substr(first)) {
      if (c == '\n') break;
      if (c == '"') quoted = !quoted;
      if (!quoted) unquoted += c;
    }
    for (const char candidate : {'\t', ';', ','}) {
      delimiter_ = candidate;
      if (unquoted.find(candidate) != std::string::npos) return;
    }
  }

  void take(char c) {
    if (c == '\n') {
      end_line();
    } else if (c == '"') {
      quoted_ = !quoted_;
    } else if (c == delimiter_ && !quoted_) {
      end_cell();
    } else {
      cell_ += c;
      if (cell_.size() > longest_cell) refuse_cell(column_ + 1, trimmed(cell_));
    }
  }

  void end_cell() {
    ++column_;
    const std::string_view text = trimmed(cell_);
    const std::optional<double> number = number_in(text);
    const bool first_line = cells_ == 0;
    if (number) {
      if (std::isinf(*number) && text.find_first_of("0123456789") != std::string_view::npos) {
        throw Error(Failure::input,
                    place(column_) + " has " + shown(text) + ", which is beyond float64");
      }
      counts_up_ = counts_up_ && *number == static_cast<double>(column_ - 1);
      numbers_.push_back(*number);
      if (numbers_.size() == numbers_.capacity()) write_numbers();
    } else if (first_line) {
      if (!wrong_) wrong_.emplace(column_, std::string(text));
    } else {
      refuse_cell(column_, text);
    }
    if (first_line && column_ <= static_cast<Index>(most_names)) names_.emplace_back(text);
    cell_.clear();
  }

  void end_line() {
    if (quoted_) {
      throw Error(Failure::input, place(column_ + 1) + " has a quote that does not end",
                  "a cell is on one line");
    }
    if (column_ > 0 || !trimmed(cell_).empty()) {
      end_cell();
      if (cells_ == 0) {
        end_first_line();
      } else if (column_ != cells_) {
        throw Error(Failure::input,
                    label_ + ": line " + std::to_string(line_) + " has " + cells(column_) +
                        ", but line " + std::to_string(first_line_) + " has " + cells(cells_),
                    delimiter_hint());
      }
      if (!header_ || line_ != first_line_) ++rows_;
    }
    ++line_;
    column_ = 0;
    cell_.clear();
  }

  void end_first_line() {
    cells_ = column_;
    first_line_ = line_;
    const bool no_number = numbers_.empty() && written_ == 0;
    const bool no_first_name = names_[0].empty();
    header_ = no_number || no_first_name;
    if (wrong_ && !header_) refuse_cell(wrong_->first, wrong_->second);
    if (!header_) {
      if (counts_up_ && cells_ > 1) {
        note("counts the columns from 0: if it is a header, leave it out with " + label_ + "[1:]",
             true);
      }
      return;
    }
    numbers_.clear();
    written_ = 0;
    if (lseek(temporary_.descriptor(), 0, SEEK_SET) != 0) refuse_temporary(errno);
    std::string all;
    for (const std::string& name : names_) all += (all.empty() ? "" : ", ") + shown(name);
    if (no_first_name && cells_ > 1) {
      note("is a header without a first name: if the first column is an index, leave it out with " +
               label_ + "[:,1:]",
           true);
    } else {
      note("is a header of " + cells(cells_) + ": " + all +
               (cells_ > static_cast<Index>(names_.size()) ? ", ..." : ""),
           false);
    }
  }

  // Said once the table has been read.
  void note(const std::string& what, bool doubtful) {
    note_ = {label_ + ": line " + std::to_string(line_) + " " + what, doubtful};
  }

  static std::string cells(Index count) {
    return std::to_string(count) + (count == 1 ? " cell" : " cells");
  }

  std::string place(Index column) const {
    return label_ + ": line " + std::to_string(line_) + ", column " + std::to_string(column);
  }

  std::string delimiter_hint() const {
    const std::string by = delimiter_ == '\t'  ? "a tab"
                           : delimiter_ == ';' ? "a semicolon"
                                               : "a comma";
    return "cells are separated by " + by + " here; a header line has no numbers";
  }

  [[noreturn]] void refuse_cell(Index column, std::string_view text) const {
    if (text.empty()) {
      throw Error(Failure::input, place(column) + " is empty, expected a number",
                  "nan stands for a number that is not known");
    }
    std::string with_point(text);
    std::replace(with_point.begin(), with_point.end(), ',', '.');
    const bool comma = with_point != text && number_in(with_point);
    throw Error(Failure::input, place(column) + " has " + shown(text) + ", expected a number",
                comma ? "numbers have a decimal point, not a comma" : delimiter_hint());
  }

  void write_numbers() {
    const std::size_t bytes = numbers_.size() * sizeof(double);
    const int failed =
        write_fully(temporary_.descriptor(), reinterpret_cast<const char*>(numbers_.data()), bytes);
    if (failed != 0) refuse_temporary(failed);
    written_ += static_cast<Index>(bytes);
    numbers_.clear();
  }

  [[noreturn]] void refuse_temporary(int error_number) const {
    throw Error(Failure::output,
                label_ + " cannot be unpacked in " + folder_ + ": " + system_reason(error_number),
                "name another folder with --tmpdir or TMPDIR");
  }

  StoredArray matrix() const {
    Descriptor own(fcntl(temporary_.descriptor(), F_DUPFD_CLOEXEC, 0));
    if (!own) refuse_temporary(errno);
    StoredArray array;
    array.dtype = DType::f64;
    array.description = "float64";
    array.element_size = sizeof(double);
    array.shape = {rows_, cells_};
    array.bytes = std::make_shared<FileBytes>(std::move(own), label_, written_);
    return array;
  }

  int descriptor_;
  std::string label_;
  std::string folder_;
  const std::function<void(const TableNote&)>& on_note_;
  UnnamedFile temporary_;

  char delimiter_ = ',';
  Index line_ = 1;    // in the file, from 1
  Index column_ = 0;  // cells of this line that have ended
  std::string cell_;
  bool quoted_ = false;

  Index first_line_ = 0;  // that is not blank
  Index cells_ = 0;       // of each line; 0 until the first has ended
  Index rows_ = 0;
  bool header_ = false;
  bool counts_up_ = true;
  std::optional<std::pair<Index, std::string>> wrong_;  // the first cell without a number, if any
  std::vector<std::string> names_;
  std::optional<TableNote> note_;

  std::vector<double> numbers_;  // not yet written
  Index written_ = 0;            // bytes
};

}  // namespace

bool is_called_table(const std::string& file) {
  return has_ending(file, ".csv") || has_ending(file, ".tsv");
}

std::shared_ptr<const ArrayFile> read_table(int descriptor, const std::string& label,
                                            const std::string& tmpdir,
                                            const std::function<void(const TableNote&)>& on_note) {
  return single_array(TableReader(descriptor, label, tmpdir, on_note).read());
}

}  // namespace attn::io
