#pragma once

#include <string>
#include <vector>

#include "io/output_file.hpp"
#include "tensor/shape.hpp"

namespace attn::io {

/// A new dataset under the root, in groups made for it where `name` has slashes; what has that
/// name already is replaced. No time stamps, all space allocated now and nothing filled in: its
/// bytes depend on what is written to it alone. `chunk` may be larger than `shape`. Throws
/// std::invalid_argument for an impossible name. Called under h5::Lock.
h5::Handle create_dataset(OutputFile& output, const std::string& name, hid_t type,
                          const Shape& shape, const Shape& chunk);

/// Removes the link `name`, a path from the root, where there is one.
void make_room(OutputFile& output, const std::string& name);

/// A group at `path` from the root, with those on the way, where there is none yet. No time stamps.
void create_group(OutputFile& output, const std::string& path);

/// For new links: groups on the way are made.
h5::Handle link_properties();

/// Names the axes of a dataset (HDF5 dimension labels); empty ones stay unnamed. Throws
/// std::invalid_argument for more labels than axes.
void label_axes(OutputFile& output, hid_t dataset, const std::string& name,
                const std::vector<std::string>& labels);

}  // namespace attn::io
