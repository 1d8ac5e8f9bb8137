#pragma once

#include <optional>
#include <string>

#include "cli/command.hpp"

namespace attn::tools {

/// What `output` ends in where that ending promises another format than a bundle: ".npz", ".csv",
/// ".gz" and their like, in lower case, whatever the case in `output`. Nothing for all other names.
std::optional<std::string> foreign_ending(const std::string& output);

/// Throws Error(usage), with a hint, where --output has a foreign ending: a bundle under such a
/// name would mislead whatever reads it. Tools with an option --to check that for themselves.
void require_bundle_name(const cli::Arguments& arguments);

/// The error of require_bundle_name for tensor-convert, which writes arrays but not `ending`.
[[noreturn]] void refuse_ending(const std::string& output, const std::string& ending);

}  // namespace attn::tools
