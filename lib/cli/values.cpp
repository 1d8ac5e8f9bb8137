#include "cli/values.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "cli/words.hpp"
#include "tensor/utf8.hpp"

namespace attn::cli {
namespace {

using Kind = Option::Kind;

template <class T>
std::optional<T> whole(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return value;
}

[[noreturn]] void refuse(const Option& option, std::string_view verb, std::string_view text,
                         std::string_view expected, const std::string& hint = "") {
  const std::string found = !text.empty()     ? fmt::format("{} {}", verb, text)
                            : verb == "lists" ? std::string("has an empty item")
                                              : std::string("is empty");
  throw Error(Failure::usage, fmt::format("--{} {}, expected {}", option.name, found, expected),
              hint);
}

bool within(double value, const Declaration::Range& range) {
  return (range.low_open ? value > range.low : value >= range.low) &&
         (range.high_open ? value < range.high : value <= range.high);
}

std::string interval(const Declaration::Range& range) {
  const bool low = std::isfinite(range.low);
  const bool high = std::isfinite(range.high);
  if (low && high) {
    return fmt::format(" in {}{}, {}{}", range.low_open ? '(' : '[', range.low, range.high,
                       range.high_open ? ')' : ']');
  }
  if (low) return fmt::format(" {} {}", range.low_open ? ">" : ">=", range.low);
  if (high) return fmt::format(" {} {}", range.high_open ? "<" : "<=", range.high);
  return "";
}

// Large powers of two as "2^40".
std::string bound(Index value) {
  constexpr Index small = Index{1} << 20;
  if (value < small || (value & (value - 1)) != 0) return fmt::format("{}", value);
  int exponent = 0;
  while ((Index{1} << exponent) < value) ++exponent;
  return fmt::format("2^{}", exponent);
}

std::string interval(Index low, Index high) {
  const bool below = low > std::numeric_limits<Index>::min();
  const bool above = high < std::numeric_limits<Index>::max();
  if (below && above) return fmt::format(" in [{}, {}]", bound(low), bound(high));
  if (below) return fmt::format(" >= {}", bound(low));
  if (above) return fmt::format(" <= {}", bound(high));
  return "";
}

bool is_list(const Option& option) {
  return option.kind == Kind::numbers || option.kind == Kind::integers ||
         option.kind == Kind::choices;
}

// The option with a list for one whose items stand apart in another way, such as "1e-8; 1e-3" or
// "[1e-8, 1e-3]"; else empty.
std::string hint_on_list(const Option& option, const std::string& text) {
  // The shell takes a blank after a comma as the end of the list.
  if (is_list(option) && text.ends_with(',')) return "a list has commas and no blanks";
  if (!is_list(option) || text.find_first_of(";| \t[]()") == std::string::npos) return "";
  std::string list;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(",;| \t[]()", at), text.size());
    if (const std::string item = text.substr(at, end - at); !item.empty()) {
      if (!is_item(option, item)) return "";
      list += (list.empty() ? "" : ",") + item;
    }
    at = end + 1;
  }
  return list.empty() ? ""
                      : fmt::format("a list has commas and no blanks: --{} {}", option.name, list);
}

// What `item` of the value `text` may have been meant to be. "0,1" is 0.1 in many countries, and
// shares are often written in percent.
std::string hint_on_number(const Option& option, const std::string& item, const std::string& text) {
  const std::size_t comma = text.find(',');
  if (comma != std::string::npos && comma == text.rfind(',') && comma + 1 < text.size()) {
    std::string decimal = text;
    decimal[comma] = '.';
    if (is_item(option, decimal)) {
      return fmt::format("a decimal has a point: --{} {}", option.name, decimal);
    }
  }
  const bool has_sign = item.ends_with('%');
  const std::optional<double> percent =
      to_number(has_sign ? std::string_view(item).substr(0, item.size() - 1) : item);
  const bool is_share = option.range.low >= 0 && option.range.high == 1;
  if (percent && (has_sign || (is_share && *percent >= 2 && *percent <= 100))) {
    const std::string share = fmt::format("{}", *percent / 100);
    if (is_item(option, share)) return fmt::format("{} % is written {}", *percent, share);
  }
  return hint_on_list(option, text);
}

// `text` is the whole value, of which `item` is the whole or a part.
double number(const Option& option, const std::string& item, std::string_view verb,
              const std::string& text) {
  if (!is_item(option, item)) {
    refuse(option, verb, item, expectation(option), hint_on_number(option, item, text));
  }
  return *to_number(item);
}

// "1e4" is 10000, and "1%" is no count.
std::string hint_on_integer(const Option& option, const std::string& item,
                            const std::string& text) {
  if (item.ends_with('%') && to_number(std::string_view(item).substr(0, item.size() - 1))) {
    return fmt::format(
        "--{} counts: {}", option.name,
        is_list(option) ? "whole numbers, not shares" : "a whole number, not a share");
  }
  if (const std::optional<double> value = to_number(item)) {
    const std::string digits = fmt::format("{:.0f}", *value);
    if (to_number(digits) == value && is_item(option, digits)) {
      return fmt::format("{} is written {}", item, digits);
    }
  }
  return hint_on_list(option, text);
}

Index integer(const Option& option, const std::string& item, std::string_view verb,
              const std::string& text) {
  if (!is_item(option, item)) {
    refuse(option, verb, item, expectation(option), hint_on_integer(option, item, text));
  }
  return *to_integer(item);
}

// "1G" for "1GB" and "1 GiB".
std::string hint_on_size(const Option& option, std::string_view text) {
  if (text.ends_with('%')) return "a size is a number of bytes, not a share";
  std::string size;
  for (const char c : text.substr(0, text.find_first_of("bBiI"))) {
    if (c != ' ') size += c;
  }
  return size != text && to_bytes(size) ? fmt::format("--{} {}", option.name, size) : "";
}

bool is_value(const Option& option, const std::string& word) {
  return std::find(option.values.begin(), option.values.end(), word) != option.values.end();
}

// What the types of --precision and --dtype are called by other programs.
struct TypeName {
  const char* other;
  const char* here;
};
constexpr std::array<TypeName, 14> type_names = {{{"float32", "f32"},
                                                  {"fp32", "f32"},
                                                  {"float", "f32"},
                                                  {"single", "f32"},
                                                  {"32", "f32"},
                                                  {"float64", "f64"},
                                                  {"fp64", "f64"},
                                                  {"double", "f64"},
                                                  {"64", "f64"},
                                                  {"bfloat16", "bf16"},
                                                  {"float16", "f16"},
                                                  {"fp16", "f16"},
                                                  {"half", "f16"},
                                                  {"16", "f16"}}};

std::string hint_on_type(const Option& option, std::string_view word) {
  if (!is_value(option, "f32")) return "";
  std::string type(word);
  for (const TypeName& name : type_names) {
    if (same_but_case(name.other, word)) type = name.here;
  }
  if (type != word && is_value(option, type))
    return fmt::format("{} is called {} here", word, type);
  // float32 has all numbers of both.
  return type == "f16" || type == "bf16" ? fmt::format("f32 takes {} as it is", word) : "";
}

std::string hint_on_word(const Option& option, const std::string& item, const std::string& text) {
  for (const auto& [other, here] : option.synonyms) {
    if (same_but_case(other, item)) return fmt::format("{} is called {} here", item, here);
  }
  if (std::string type = hint_on_type(option, item); !type.empty()) return type;
  if (option.value_is_optional() && is_switch_word(item)) return hint_on_switch(option, item);
  if (std::string list = hint_on_list(option, text); !list.empty()) return list;
  const std::string near = nearest(item, option.values);
  return near.empty() ? "" : fmt::format("did you mean {}?", near);
}

std::string word(const Option& option, const std::string& item, std::string_view verb,
                 const std::string& text) {
  if (!is_value(option, item)) {
    refuse(option, verb, item, expectation(option), hint_on_word(option, item, text));
  }
  return item;
}

std::vector<std::string> distinct_words(const Option& option, const std::string& text) {
  std::vector<std::string> words;
  for (const std::string& item : split(text, ',')) {
    word(option, item, "lists", text);
    if (std::find(words.begin(), words.end(), item) != words.end()) {
      throw Error(Failure::usage, fmt::format("--{} lists {} twice", option.name, item));
    }
    words.push_back(item);
  }
  return words;
}

std::vector<std::vector<double>> point_rows(const Option& option, const std::string& text) {
  std::vector<std::vector<double>> rows;
  for (const std::string& row : split(text, ';')) {
    std::vector<double> point;
    for (const std::string& item : split(row, ',')) {
      const std::optional<double> value = to_number(item);
      if (!value) refuse(option, "is", text, expectation(option));
      point.push_back(*value);
    }
    if (!rows.empty() && rows.front().size() != point.size()) {
      throw Error(Failure::usage, fmt::format("--{} has points of {} and of {} coordinates",
                                              option.name, rows.front().size(), point.size()));
    }
    rows.push_back(std::move(point));
  }
  return rows;
}

}  // namespace

bool is_item(const Option& option, const std::string& text) {
  if (option.kind == Kind::number || option.kind == Kind::numbers) {
    const std::optional<double> value = to_number(text);
    return value && within(*value, option.range);
  }
  if (option.kind == Kind::integer || option.kind == Kind::integers) {
    const std::optional<Index> value = to_integer(text);
    return value && *value >= option.low && *value <= option.high;
  }
  return is_value(option, text);
}

bool is_switch_word(std::string_view text) {
  constexpr std::array words = {"true", "false", "yes", "no", "on", "off", "1", "0"};
  return std::any_of(words.begin(), words.end(),
                     [&](const char* word) { return same_but_case(word, text); });
}

std::string hint_on_switch(const Option& option, std::string_view word) {
  const bool is_off = word == "0" || same_but_case(word, "false") || same_but_case(word, "no") ||
                      same_but_case(word, "off");
  if (!is_off) return fmt::format("--{} alone switches it on", option.name);
  return is_value(option, "none") ? fmt::format("--{}=none", option.name)
                                  : fmt::format("leave out --{} to switch it off", option.name);
}

std::optional<double> to_number(std::string_view text) {
  const std::optional<double> value = whole<double>(text);
  if (!value || !std::isfinite(*value)) return std::nullopt;
  return value;
}

std::optional<Index> to_integer(std::string_view text) { return whole<Index>(text); }

std::optional<Index> to_bytes(std::string_view text) {
  constexpr std::string_view units = "KMGT";
  double unit = 1;
  if (!text.empty()) {
    const char last = text.back();
    const std::size_t at =
        units.find(last >= 'a' && last <= 'z' ? static_cast<char>(last - 32) : last);
    if (at != std::string_view::npos) {
      unit = std::ldexp(1.0, 10 * (static_cast<int>(at) + 1));
      text.remove_suffix(1);
    }
  }
  if (unit == 1) {
    const std::optional<Index> bytes = to_integer(text);
    return bytes && *bytes >= 1 ? bytes : std::nullopt;
  }
  const std::optional<double> count = to_number(text);
  if (!count) return std::nullopt;
  const double bytes = *count * unit;
  if (!(bytes >= 1) || !(bytes < 0x1p63)) return std::nullopt;
  return static_cast<Index>(bytes);
}

int to_deflate_level(std::string_view text) {
  constexpr int usual = 4;
  if (text == "gzip") return usual;
  const bool levelled = text.size() == 6 && text.substr(0, 5) == "gzip:";
  return levelled && text[5] >= '1' && text[5] <= '9' ? text[5] - '0' : 0;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

namespace {

std::string expected_kind(const Option& option) {
  switch (option.kind) {
    case Kind::choice:
    case Kind::optional_choice:
      return fmt::format("one of {}", fmt::join(option.values, ", "));
    case Kind::choices:
      return fmt::format("a list of {}", fmt::join(option.values, ", "));
    case Kind::number: {
      const std::string range = interval(option.range);
      return range.empty() ? "a finite number" : "a number" + range;
    }
    case Kind::numbers:
      return "numbers" + interval(option.range) + " separated by commas";
    case Kind::integer:
      return "an integer" + interval(option.low, option.high);
    case Kind::integers:
      return "integers" + interval(option.low, option.high) + " separated by commas";
    case Kind::points:
      return "points such as \"1.8,0.7;-1,-1\"";
    case Kind::size:
      return "a size such as 512M, 1.5G or 65536";
    case Kind::seed:
      return "an integer in [0, 18446744073709551615]";
    case Kind::assignment:
      return "NAME=ADDRESS";
    case Kind::compression:
      return "gzip or gzip:N with N in [1, 9]";
    case Kind::flag:
    case Kind::text:
    case Kind::texts:
    case Kind::optional_text:
      break;
  }
  return option.placeholder.empty() ? "text" : option.placeholder;
}

}  // namespace

std::string expectation(const Option& option) {
  return expected_kind(option) + (option.or_none ? ", or none" : "");
}

Value parse_value(const Option& option, const std::string& text) {
  const bool may_be_empty = option.kind == Kind::flag || option.kind == Kind::text;
  if (text.empty() && !may_be_empty) refuse(option, "is", text, expectation(option));
  if (option.or_none && text == "none") return {};
  switch (option.kind) {
    case Kind::choice:
    case Kind::optional_choice:
      return word(option, text, "is", text);
    case Kind::choices:
      return distinct_words(option, text);
    case Kind::number:
      return number(option, text, "is", text);
    case Kind::numbers: {
      std::vector<double> numbers;
      for (const std::string& item : split(text, ',')) {
        numbers.push_back(number(option, item, "lists", text));
      }
      return numbers;
    }
    case Kind::integer:
      return integer(option, text, "is", text);
    case Kind::integers: {
      std::vector<Index> integers;
      for (const std::string& item : split(text, ',')) {
        integers.push_back(integer(option, item, "lists", text));
      }
      return integers;
    }
    case Kind::points:
      return point_rows(option, text);
    case Kind::size: {
      const std::optional<Index> bytes = to_bytes(text);
      if (!bytes) refuse(option, "is", text, expectation(option), hint_on_size(option, text));
      return *bytes;
    }
    case Kind::seed: {
      const std::optional<std::uint64_t> seed = whole<std::uint64_t>(text);
      if (!seed) refuse(option, "is", text, expectation(option));
      return *seed;
    }
    case Kind::assignment: {
      const std::size_t equals = text.find('=');
      if (equals == 0 || equals == std::string::npos || equals + 1 == text.size()) {
        const bool is_file = equals == std::string::npos;
        refuse(option, "is", text, expectation(option),
               is_file ? "a file of all datasets is INPUT, which has no option before it" : "");
      }
      return text;
    }
    case Kind::compression: {
      const int level = to_deflate_level(text);
      if (level == 0) {
        const std::string levelled = "gzip:" + text;
        refuse(option, "is", text, expectation(option),
               to_deflate_level(levelled) > 0 ? "--compress " + levelled : "");
      }
      return fmt::format("gzip:{}", level);
    }
    case Kind::flag:
      return true;
    case Kind::text:
    case Kind::texts:
    case Kind::optional_text:
      break;
  }
  return text;
}

}  // namespace attn::cli
