#include "common/frame/toml_file.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "cli/words.hpp"
#include "common/frame/text_input.hpp"

namespace attn::tools {
namespace {

// Far larger than any file written by hand.
constexpr std::size_t most_toml_bytes = std::size_t{64} << 20;
// Limits for a dotted key, and for arrays and inline tables within each other: toml++ represents
// them by values nested as deep, and destroys these by recursion.
constexpr std::size_t most_key_parts = 32;
constexpr std::size_t most_brackets = 32;

// Refuses deeper text. Strings and comments may contain anything; other errors in the text are left
// to the parser.
class Scan {
 public:
  Scan(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  void run() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"' || c == '\'') {
        skip_string(c);
        continue;
      }
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
        continue;
      }
      take(c);
      ++at_;
    }
  }

 private:
  void take(char c) {
    switch (c) {
      case '.':
        if (++dots_ >= most_key_parts) refuse("a key", "parts", most_key_parts);
        return;
      case '[':
      case '{':
        if (++depth_ > most_brackets) refuse("a value", "nested brackets", most_brackets);
        break;
      case ']':
      case '}':
        if (depth_ > 0) --depth_;
        break;
      case '\n':
        ++line_;
        break;
      case '=':
      case ',':
        break;
      default:
        return;
    }
    // None of these occurs within a key; a number or a date between two of them has one dot.
    dots_ = 0;
  }

  bool starts(char quote, std::size_t count) const {
    return text_.substr(at_, count) == std::string(count, quote);
  }

  void skip_string(char quote) {
    const bool long_form = starts(quote, 3);
    at_ += long_form ? 3 : 1;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == quote && (!long_form || starts(quote, 3))) break;
      if (c == '\n' && !long_form) return;  // the parser refuses it
      if (c == '\n') ++line_;
      const bool escape = c == '\\' && quote == '"';
      at_ += escape && at_ + 1 < text_.size() && text_[at_ + 1] != '\n' ? 2 : 1;
    }
    at_ += long_form ? 3 : 1;
    // A long string may end in one or two quotes of its own.
    for (int more = 0; long_form && more < 2 && at_ < text_.size() && text_[at_] == quote; ++more) {
      ++at_;
    }
  }

  [[noreturn]] void refuse(const char* what, const char* of, std::size_t most) const {
    throw Error(Failure::input,
                fmt::format("{}:{}: {} has more than {} {}", file_, line_, what, most, of));
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
  std::size_t dots_ = 0;
  std::size_t depth_ = 0;
};

// TOML may have no byte 0; files of arrays have some near their beginning.
void require_text(std::string_view text, const std::string& file, const std::string& expected) {
  constexpr std::size_t beginning = 512;
  if (text.substr(0, beginning).find('\0') == std::string_view::npos) return;
  const char* const kind = text.substr(1, 3) == "HDF" ? "an HDF5 file" : "not text";
  throw Error(Failure::input, fmt::format("{} is {}, expected {}", file, kind, expected));
}

}  // namespace

toml::table parse_toml(const std::string& file, const std::string& expected) {
  const std::string text = read_text(file, most_toml_bytes, expected);
  require_text(text, file, expected);
  Scan(text, file).run();
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    throw Error(Failure::input, fmt::format("{}:{}: {}", file, error.source().begin.line,
                                            cli::one_line(error.description())));
  }
}

}  // namespace attn::tools
