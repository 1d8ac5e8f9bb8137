#include "common/options/window_words.hpp"

#include <charconv>

#include <fmt/format.h>

namespace attn::tools {
namespace {

constexpr Index most_distance = Index{1} << 40;

std::optional<Index> distance_of(std::string_view text) {
  Index value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || value < 0 || value > most_distance) return std::nullopt;
  return value;
}

}  // namespace

std::optional<Window> window_of(const std::string& text) {
  if (text == "none") return Window{};
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) {
    const auto distance = distance_of(text);
    if (!distance || *distance < 1) return std::nullopt;
    return Window::nearer_than(*distance);
  }
  Window window;
  const auto take = [](std::string_view side, std::optional<Index>& reach) {
    if (side.empty()) return true;
    reach = distance_of(side);
    return reach.has_value();
  };
  const std::string_view all = text;
  if (!take(all.substr(0, colon), window.left) || !take(all.substr(colon + 1), window.right)) {
    return std::nullopt;
  }
  return window;
}

std::string window_text(const Window& window) {
  if (window.left && window.left == window.right) return fmt::to_string(*window.left + 1);
  const auto side = [](const std::optional<Index>& reach) {
    return reach ? fmt::to_string(*reach) : std::string();
  };
  return side(window.left) + ":" + side(window.right);
}

Setting window_setting(const Window& window) {
  if (window.left && window.left == window.right) return std::int64_t{*window.left + 1};
  return window_text(window);
}

}  // namespace attn::tools
