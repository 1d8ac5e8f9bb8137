#include "common/tables/column_text.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "cli/words.hpp"

namespace attn::tools {

std::string printable(std::string_view name, std::size_t width) {
  std::string text;
  for (std::size_t characters = 0; !name.empty(); ++characters) {
    if (characters >= width) return text + "~";
    const std::size_t length = cli::printing_character(name);
    const char c = name.front();
    text += length > 0 ? std::string(name.substr(0, length))
                       : (c == '\n' ? "\\n" : (c == '\t' ? "\\t" : "?"));
    name.remove_prefix(length > 0 ? length : 1);
  }
  return text;
}

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

std::string padded(const std::string& text, std::size_t width) {
  const std::size_t used = characters(text);
  return text + std::string(used < width ? width - used : 1, ' ');
}

std::string aligned(std::vector<std::vector<std::string>> rows) {
  std::vector<std::size_t> widths;
  for (auto& row : rows) {
    for (std::string& cell : row) cell = cli::one_line(cell);
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (std::size_t k = 0; k < row.size(); ++k)
      widths[k] = std::max(widths[k], characters(row[k]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t k = 0; k < row.size(); ++k) line += padded(row[k], widths[k] + 2);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string number(double value) {
  if (std::isnan(value)) return "-";
  if (value == 0) return "0";
  const double size = std::abs(value);
  return size >= 0.01 && size < 1e4 ? fmt::format("{:.3g}", value) : fmt::format("{:.1e}", value);
}

std::string compact(double value) {
  std::string text = value < 0.01 ? fmt::format("{:.6e}", value) : fmt::format("{:g}", value);
  const std::size_t e = text.find('e');
  if (e == std::string::npos) return text;
  std::string mantissa = text.substr(0, e);
  mantissa.erase(mantissa.find_last_not_of('0') + 1);
  if (mantissa.back() == '.') mantissa.pop_back();
  const int exponent = std::stoi(text.substr(e + 1));
  return fmt::format("{}e{}", mantissa, exponent);
}

}  // namespace attn::tools
