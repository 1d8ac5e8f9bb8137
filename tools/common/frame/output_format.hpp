#pragma once

#include <optional>
#include <string>

#include "cli/command.hpp"
#include "io/arrays/array_format.hpp"

namespace attn::tools {

/// The ending of `output`, in lower case, if it belongs to another format than a bundle: ".npz",
/// ".csv", ".gz" and the like. Empty for all other names.
std::optional<std::string> foreign_ending(const std::string& output);

/// The format of the output's ending, if tools write it in place of HDF5.
std::optional<io::ArrayFormat> array_format_of(const std::string& output);

/// Throws Error(usage), with a hint, if --output has an ending of a format that is not written, or
/// is a link to a file with the ending of another format: such a name would mislead its readers.
/// Also if --compress is given for a format without it. Tools with an option --to check this
/// themselves.
void require_output_name(const cli::Arguments& arguments);

/// Throws Error(usage), with a hint, if `output` is a symbolic link to a file whose ending belongs
/// to another format than `format` (h5, npy, npz or safetensors).
void require_same_ending(const std::string& output, const std::string& format);

/// The error of require_bundle_name in tensor-convert, which writes arrays but not the format of
/// `ending`.
[[noreturn]] void refuse_ending(const std::string& output, const std::string& ending);

}  // namespace attn::tools
