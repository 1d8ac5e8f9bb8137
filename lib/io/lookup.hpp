#pragma once

#include <string>
#include <vector>

#include "io/input_file.hpp"

namespace attn::io {

/// "/layer3" and "q" make "/layer3/q".
std::string joined_path(const std::string& path, const std::string& name);

/// What messages call the object at `path`: "dump.h5:/layer3/q", and "dump.h5" for the root.
std::string address_text(const std::string& label, const std::string& path);

/// Names of the objects of one kind directly in a group, sorted; `what` names it in messages.
std::vector<std::string> names_of(h5::Kind kind, hid_t group, const std::string& what);

/// Throws Error(input): "layer3.h5: no dataset q (there are: k, tokens, v)". `kind` is a dataset
/// or a group.
[[noreturn]] void refuse_missing(const std::string& where, h5::Kind kind, const std::string& name,
                                 const std::vector<std::string>& there);

/// Throws Error(input) saying why `path` does not lead to a dataset or group, as is `wanted`: names
/// its first part that is not there.
[[noreturn]] void refuse_path(const InputFile& file, const std::string& path, h5::Kind wanted);

}  // namespace attn::io
