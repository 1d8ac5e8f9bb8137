#pragma once

#include <optional>
#include <string>

#include "io/input.hpp"

namespace attn::io {

/// The dataset attribute by which a tool marks a result as its own. It refers to the bundle that
/// the tool wrote: a dataset that -i takes into another bundle is copied without it.
inline constexpr const char* result_mark = "attn_result";

/// The mark of the dataset at `path` below INPUT's root ("out", "unas/centre"). Empty if INPUT has
/// no such dataset that can be opened (named datasets do not count), or the mark is not one string.
std::optional<std::string> result_mark_of(const InputBundle& bundle, const std::string& path);

/// Whether there is a dataset at `path` below INPUT's root (named datasets do not count). Also
/// false if it cannot be opened: copying it then reports the error.
bool may_be_result(const InputBundle& bundle, const std::string& path);

}  // namespace attn::io
