#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <vector>

namespace attn::cli {

/// The least number of insertions, deletions, substitutions and swaps of neighbours that turn `a`
/// into `b` (optimal string alignment), in bytes.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `word` in spelling, or else the only one that begins with it; empty if
/// there is none.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// The number of bytes of the UTF-8 character at the beginning of `text`; 0 if it must not be sent
/// to a terminal: a control character, a character that ends a line or reverses its order, or
/// invalid UTF-8.
std::size_t printing_character(std::string_view text);

/// `text`, in which bytes that do not print become '?', except those in `kept`.
std::string printing(std::string_view text, std::string_view kept);

/// JSON text with \u and four digits in place of characters that do not print; json.dump() leaves
/// some of them in strings. Expects UTF-8.
std::string printing_json(std::string_view json);

/// `text` on one line: line breaks and tabs become one blank together with the blanks around them;
/// bytes that do not print become '?'.
std::string one_line(std::string_view text);

/// `word` as a shell reads it back: unchanged if that is safe, else 'quoted', or $'quoted' (bash,
/// zsh, POSIX 2024) if it has control characters or is not UTF-8. Always one line of UTF-8.
std::string shell_quoted(std::string_view word);

/// `number` and `noun` if there is `one`, else `number` and `plural`, by default the noun and an s.
std::string counted(bool one, const std::string& number, const std::string& noun,
                    const std::string& plural);

/// A count with its noun: "1 head", "3 heads"; counted(n, "query has", "queries have").
template <std::integral Count>
std::string counted(Count count, const std::string& noun, const std::string& plural = "") {
  return counted(count == 1, std::to_string(count), noun, plural);
}

/// The width of UTF-8 `text` on a terminal, counted as one column per code point.
std::size_t width(std::string_view text);

/// `text` broken at blanks into lines of at most `columns`; a longer word has a line of its own.
/// Each line after the first begins with `indent` blanks. Line breaks in `text` are kept.
std::string wrapped(std::string_view text, std::size_t columns, std::size_t indent);

}  // namespace attn::cli
