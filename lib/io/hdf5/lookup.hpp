#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/hdf5/open_object.hpp"

namespace attn::io {

/// "/layer3" and "q" make "/layer3/q".
std::string joined_path(const std::string& path, const std::string& name);

/// What messages call the object at `path`: "dump.h5:/layer3/q", and "dump.h5" for the root.
std::string address_text(const std::string& label, const std::string& path);

/// Names of the objects of one kind directly in a group, sorted; `address` and a slash stand before
/// them in messages. Throws Error(input) for a link that leads to nothing that can be opened.
std::vector<std::string> names_of(h5::Kind kind, const Object& group, const std::string& address);

/// Throws Error(input): "layer3.h5: no dataset q (there are: k, tokens, v)". `kind` is a dataset
/// or a group.
[[noreturn]] void refuse_missing(const std::string& where, h5::Kind kind, const std::string& name,
                                 const std::vector<std::string>& there);

/// The same for a link that `group` has not got, with the names of what it has.
[[noreturn]] void refuse_missing(const std::string& where, h5::Kind kind, const std::string& name,
                                 const Object& group);

/// Throws Error(input): "a.h5:/layer3/q is a group, expected a dataset".
[[noreturn]] void refuse_kind(const std::string& address, h5::Kind found, h5::Kind wanted);

/// What `path` leads to from the root of `file`. Throws Error(input) where that is not of the kind
/// `wanted`; names the first part of the path that is not there.
Object require_object(const std::shared_ptr<const InputFile>& file, const std::string& path,
                      h5::Kind wanted);

}  // namespace attn::io
