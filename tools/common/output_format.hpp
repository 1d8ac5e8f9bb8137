#pragma once

#include <optional>
#include <string>

#include "cli/command.hpp"

namespace attn::tools {

/// What `output` ends in where that ending promises another format than a bundle: ".npz", ".csv",
/// ".gz" and their like, in lower case, whatever the case in `output`. Nothing for all other names.
std::optional<std::string> foreign_ending(const std::string& output);

/// Throws Error(usage), with a hint, where --output, or the file that it is a symbolic link to, has
/// a foreign ending: a bundle under such a name would mislead whatever reads it. Tools with an
/// option --to check that for themselves.
void require_bundle_name(const cli::Arguments& arguments);

/// Throws Error(usage), with a hint, where `output` is a symbolic link to a file whose ending
/// promises another format than `format` (h5, npy, npz or safetensors).
void require_same_ending(const std::string& output, const std::string& format);

/// The error of require_bundle_name for tensor-convert, which writes arrays but not `ending`.
[[noreturn]] void refuse_ending(const std::string& output, const std::string& ending);

}  // namespace attn::tools
