#include "train/symbols.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "attnkit/error.hpp"
#include "tensor/utf8.hpp"

namespace attn::train {
namespace {

// The number of bytes of the code point at `at`, by its first byte.
std::size_t point_length(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  return lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

}  // namespace

void require_utf8(std::string_view text) {
  if (is_utf8(text)) return;
  std::size_t at = 0;
  while (is_utf8(text.substr(at, point_length(text, at)))) at += point_length(text, at);
  throw Error(Failure::input, "the text is not UTF-8 at byte " + std::to_string(at));
}

std::vector<std::string_view> points_of(std::string_view text) {
  std::vector<std::string_view> points;
  for (std::size_t at = 0; at < text.size(); at += points.back().size()) {
    points.push_back(text.substr(at, point_length(text, at)));
  }
  return points;
}

std::vector<std::string_view> words_of(std::string_view text, bool line_ends) {
  constexpr std::string_view white = " \t\n\v\f\r";
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(white, at), text.size());
    if (end > at) words.push_back(text.substr(at, end - at));
    if (line_ends && text.substr(end, 1) == line_end) words.push_back(line_end);
    at = end + 1;
  }
  return words;
}

SymbolCounts counts_of(const std::vector<std::string_view>& symbols) {
  SymbolCounts counts;
  for (const std::string_view symbol : symbols) ++counts[symbol];
  return counts;
}

std::vector<std::string_view> ranked(const SymbolCounts& counts) {
  std::vector<std::pair<Index, std::string_view>> order;
  for (const auto& [symbol, count] : counts) order.emplace_back(-count, symbol);
  std::sort(order.begin(), order.end());
  std::vector<std::string_view> symbols;
  for (const auto& [count, symbol] : order) symbols.push_back(symbol);
  return symbols;
}

}  // namespace attn::train
