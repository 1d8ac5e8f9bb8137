#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace attn::cli {

/// Insertions, deletions, substitutions and swaps of neighbours that lead from `a` to `b`.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate that `word` is probably a misspelling or the beginning of; empty where there is
/// none, or more than one beginning with it.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// Bytes of the UTF-8 character at the beginning of `text`; 0 where that is a control character or
/// no character at all, which a terminal must not be sent.
std::size_t printing_character(std::string_view text);

/// `text` on one line: line breaks and tabs with the blanks around them become one blank, what is
/// no printing character '?'.
std::string one_line(std::string_view text);

/// `word` as a POSIX shell reads it back: as it is where that is safe, else 'quoted', or $'quoted'
/// (bash, zsh, POSIX 2024) where it has control characters or is not UTF-8; always one line of
/// UTF-8.
std::string shell_quoted(std::string_view word);

/// Columns that UTF-8 `text` takes on a terminal, one per code point.
std::size_t width(std::string_view text);

/// `text` broken at blanks into lines of at most `columns` (a longer word stands alone), each
/// after the first preceded by `indent` blanks. Line breaks in `text` are kept.
std::string wrapped(std::string_view text, std::size_t columns, std::size_t indent);

}  // namespace attn::cli
