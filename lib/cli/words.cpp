#include "cli/words.hpp"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "tensor/utf8.hpp"

namespace attn::cli {
namespace {

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7f;
}

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U; }

// The number of bytes of the character at the beginning of `text`, or 0 if it is no valid UTF-8.
std::size_t character_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t length = lead < 0x80                   ? 1
                             : lead >= 0xc2 && lead < 0xe0 ? 2
                             : lead >= 0xe0 && lead < 0xf0 ? 3
                             : lead >= 0xf0 && lead < 0xf5 ? 4
                                                           : 0;
  if (length > text.size()) return 0;
  for (std::size_t k = 1; k < length; ++k) {
    if (!is_continuation(text[k])) return 0;
  }
  if (length < 3) return length;
  // Longer than needed, a surrogate, or beyond U+10FFFF.
  const auto second = static_cast<unsigned char>(text[1]);
  const bool wrong = (lead == 0xe0 && second < 0xa0) || (lead == 0xed && second >= 0xa0) ||
                     (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second >= 0x90);
  return wrong ? 0 : length;
}

// U+2028 and U+2029 end a line or a paragraph. U+202A to U+202E and U+2066 to U+2069 reverse the
// order in which the rest of a line is shown.
bool breaks_line(std::string_view character) {
  if (character.size() != 3 || character[0] != '\xe2') return false;
  const auto last = static_cast<unsigned char>(character[2]);
  return (character[1] == '\x80' && last >= 0xa8 && last <= 0xae) ||
         (character[1] == '\x81' && last >= 0xa6 && last <= 0xa9);
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Rows i-2, i-1 and i of the table of distances between beginnings of a and of b.
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, above);
    std::swap(above, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({substituted, above[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t least = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    if (same_but_case(word, candidate)) return candidate;
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < least) {
      least = distance;
      best = candidate;
    }
  }
  if (!best.empty() || word.size() < 2) return word.size() < 2 ? "" : best;
  for (const std::string& candidate : candidates) {
    if (candidate.compare(0, word.size(), word) != 0) continue;
    if (!best.empty()) return "";
    best = candidate;
  }
  return best;
}

std::size_t printing_character(std::string_view text) {
  const std::size_t length = character_length(text);
  if (length == 1 && is_control(text[0])) return 0;
  // U+0080 to U+009F are control characters, which terminals obey.
  const bool c1 = length == 2 && text[0] == '\xc2' && static_cast<unsigned char>(text[1]) < 0xa0;
  return c1 || breaks_line(text.substr(0, length)) ? 0 : length;
}

std::string printing(std::string_view text, std::string_view kept) {
  std::string clean;
  while (!text.empty()) {
    const std::size_t length = printing_character(text);
    const bool stays = length > 0 || kept.find(text.front()) != std::string_view::npos;
    clean += stays ? text.substr(0, std::max<std::size_t>(length, 1)) : "?";
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return clean;
}

std::string printing_json(std::string_view json) {
  std::string text;
  while (!json.empty()) {
    const std::size_t length = json.front() == '\n' ? 1 : character_length(json);
    if (json.front() == '\n' || printing_character(json) > 0 || length == 0) {
      text += json.substr(0, std::max<std::size_t>(length, 1));
    } else {
      // All characters that do not print have at most three bytes.
      const auto byte = [&](std::size_t n) { return static_cast<unsigned char>(json[n]); };
      unsigned point = byte(0) & (length == 1 ? 0x7fU : length == 2 ? 0x1fU : 0x0fU);
      for (std::size_t n = 1; n < length; ++n) point = (point << 6U) | (byte(n) & 0x3fU);
      text += fmt::format("\\u{:04x}", point);
    }
    json.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return text;
}

std::string one_line(std::string_view text) {
  std::string line;
  bool broken = false;
  while (!text.empty()) {
    const char c = text.front();
    const std::size_t length = printing_character(text);
    if (c == '\n' || c == '\r' || c == '\t') {
      while (!line.empty() && line.back() == ' ') line.pop_back();
      broken = true;
    } else if (!broken || c != ' ') {
      if (broken && !line.empty()) line += ' ';
      broken = false;
      line += length == 0 ? "?" : text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return line;
}

std::string shell_quoted(std::string_view word) {
  const auto safe = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_@%+=:,./-").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), safe)) return std::string(word);

  if (printing(word, "") == word) {
    std::string quoted = "'";
    for (const char c : word) {
      if (c == '\'') {
        quoted += "'\\''";
      } else {
        quoted += c;
      }
    }
    return quoted + "'";
  }
  std::string quoted = "$'";
  while (!word.empty()) {
    const char c = word.front();
    const std::size_t length = printing_character(word);
    if (c == '\'' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (length > 0) {
      quoted += word.substr(0, length);
    } else {
      // Octal, because it ends after three digits, whatever the next character is.
      quoted += fmt::format("\\{:03o}", static_cast<unsigned char>(c));
    }
    word.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return quoted + "'";
}

std::string counted(bool one, const std::string& number, const std::string& noun,
                    const std::string& plural) {
  if (one) return number + " " + noun;
  return number + " " + (plural.empty() ? noun + "s" : plural);
}

std::size_t width(std::string_view text) {
  return text.size() -
         static_cast<std::size_t>(std::count_if(text.begin(), text.end(), is_continuation));
}

std::string wrapped(std::string_view text, std::size_t columns, std::size_t indent) {
  std::string lines;
  std::size_t column = 0;
  const auto new_line = [&] {
    lines += '\n';
    lines.append(indent, ' ');
    column = 0;
  };
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '\n') {
      new_line();
      ++at;
    } else if (text[at] == ' ') {
      ++at;
    } else {
      const std::size_t end = std::min(text.find_first_of(" \n", at), text.size());
      const std::string_view word = text.substr(at, end - at);
      if (column > 0 && column + 1 + width(word) > columns) new_line();
      if (column > 0) {
        lines += ' ';
        ++column;
      }
      lines += word;
      column += width(word);
      at = end;
    }
  }
  return lines;
}

}  // namespace attn::cli
