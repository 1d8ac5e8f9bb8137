#pragma once

#include <optional>
#include <string>

#include "attnkit/causal.hpp"
#include "common/results/settings.hpp"

namespace attn::tools {

/// The window of "W" (keys fewer than W positions away, W >= 1), "LEFT:RIGHT" (an absent side is
/// open) or "none"; nothing for another text.
std::optional<Window> window_of(const std::string& text);

/// A window as such a text, W as a number. Requires that it is not open.
Setting window_setting(const Window& window);
std::string window_text(const Window& window);

}  // namespace attn::tools
