#pragma once

#include <string>

#include "cli/command.hpp"

namespace attn::cli {

/// The text of --man: a manual page of section 1 in the roff macros of man(7), in UTF-8, the same
/// on every machine. Empty sections are omitted.
std::string man_page(const Declaration& declaration);

/// `text` as roff prints it literally, in running text and in examples: hyphens stay hyphens,
/// quotes stay straight, and no line is mistaken for a request.
std::string roff_escaped(const std::string& text);

}  // namespace attn::cli
