#pragma once

#include <optional>
#include <string>

#include "claim_check/claim_values.hpp"
#include "tensor/shape.hpp"

namespace attn::tools {

/// Selects numbers of a text file.
struct TextPlace {
  std::optional<Index> line;           ///< from 1 on; from the end if negative; of a table: row
  std::optional<std::string> pattern;  ///< a regular expression (RE2)
  std::optional<std::string> column;   ///< of a table: a name in its first line, or a number from 1

  bool is_set() const { return line || pattern || column; }
};

/// The numbers in a text file of `folder`, one after another. With a column: the numbers in the
/// rows of a table, separated by tabs, commas or spaces like its first line; `pattern` chooses
/// rows. With a pattern: for each match in a line, the first group, or else the whole. With only a
/// line: all numbers in it. Throws Error(input) if there are none, if a selected text is not a
/// number, and if a searched line has more than 4096 bytes. For any pattern, the time is linear in
/// the length of the text.
Values text_values(const TextPlace& place, const std::string& file, const std::string& folder);

/// Throws Error(input) with RE2's reason if RE2 rejects the pattern.
void require_pattern(const TextPlace& place);

}  // namespace attn::tools
