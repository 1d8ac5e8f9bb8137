#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/hdf5/open_object.hpp"

namespace attn::io {

/// Joins "/layer3" and "q" to "/layer3/q".
std::string joined_path(const std::string& path, const std::string& name);

/// The name of the object at `path` in messages: "dump.h5:/layer3/q", and "dump.h5" for the root.
std::string address_text(const std::string& label, const std::string& path);

/// `path` with slashes in place of dots if `group` has an object of this kind there, but none at
/// `path`; else `path`. `address` is the name of the group in messages, before a slash.
std::string path_there(const Object& group, const std::string& path, h5::Kind kind,
                       const std::string& address);

/// Names of the objects of one kind directly in a group, sorted. In messages, they are preceded by
/// `address` and a slash. Throws Error(input) for a link whose target cannot be opened.
std::vector<std::string> names_of(h5::Kind kind, const Object& group, const std::string& address);

/// Throws Error(input): "layer3.h5: no dataset q (there are: k, tokens, v)". `kind` is dataset or
/// group. Without a hint, a name that differs in case only is suggested.
[[noreturn]] void refuse_missing(const std::string& where, h5::Kind kind, const std::string& name,
                                 const std::vector<std::string>& there,
                                 const std::string& hint = {});

/// The same for a link missing from `group`; lists the names that the group has.
[[noreturn]] void refuse_missing(const std::string& where, h5::Kind kind, const std::string& name,
                                 const Object& group, const std::string& hint = {});

/// Throws Error(input): "a.h5:/layer3/q is a group, expected a dataset".
[[noreturn]] void refuse_kind(const std::string& address, h5::Kind found, h5::Kind wanted);

/// Opens the object that `path` leads to from the root of `file`. Throws Error(input) if it is not
/// of the kind `wanted`; names the first missing part of the path.
Object require_object(const std::shared_ptr<const InputFile>& file, const std::string& path,
                      h5::Kind wanted);

}  // namespace attn::io
