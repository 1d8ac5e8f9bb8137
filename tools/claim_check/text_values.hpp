#pragma once

#include <optional>
#include <string>

#include "claim_check/claim_values.hpp"
#include "tensor/shape.hpp"

namespace attn::tools {

/// Which numbers of a text file are meant.
struct TextPlace {
  std::optional<Index> line;           ///< from 1 on; from the end if negative; of a table: row
  std::optional<std::string> pattern;  ///< a regular expression (RE2)
  std::optional<std::string> column;   ///< of a table: a name in its first line, or a number from 1

  bool is_set() const { return line || pattern || column; }
};

/// The numbers in a text file of `folder`, one after another. With a column: those of the rows of a
/// table, separated by tabs, by commas or by spaces, as its first line is; `pattern` chooses rows.
/// With a pattern: for each match in a line, its first group, or else the whole. With a line alone:
/// all numbers in it. Throws Error(input) if there are none, if what is meant is no number, and for
/// a line of more than 4096 bytes that is searched. Whatever the pattern, the time grows with the
/// length of the text.
Values text_values(const TextPlace& place, const std::string& file, const std::string& folder);

/// Throws Error(input) with RE2's reason if it does not take the pattern.
void require_pattern(const TextPlace& place);

}  // namespace attn::tools
