#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attn::tools {

/// The files of the folder page/, from page_texts.cpp; the scripts in the order of page/files.txt.
extern const std::string_view page_html, page_style;
extern const std::vector<std::string_view> page_scripts;

/// The page before and behind its data. Its content security policy lets nothing run but its own
/// script, and nothing be loaded.
std::pair<std::string, std::string> page_around_data();

/// Bytes in base64.
std::string base64(std::string_view bytes);

}  // namespace attn::tools
