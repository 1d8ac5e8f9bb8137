#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "io/hdf5/output_file.hpp"
#include "tensor/shape.hpp"

namespace attn::io {

/// The layout of a dataset in its file.
struct Storage {
  Shape chunk;      ///< empty: contiguous; may be larger than the dataset
  int deflate = 0;  ///< level 1 to 9, used for datasets of at least deflate_worth_bytes; 0: none
};

/// Below this size, chunks and their index take about as much space as compression saves.
constexpr std::int64_t deflate_worth_bytes = std::int64_t{64} << 10;

/// Creates a dataset under the root, with the groups that `name` needs if it has slashes, and
/// replaces any object of that name. Without time stamps. Without deflate, all space is allocated
/// at once and not filled, so the dataset's bytes depend only on the values written to it. With
/// deflate, chunks (of `deflate_chunk` if no chunk shape is given) are allocated as they become
/// complete. Throws std::invalid_argument for an impossible name. Called under h5::Lock.
h5::Handle create_dataset(OutputFile& output, const std::string& name, hid_t type,
                          const Shape& shape, const Storage& storage);

/// The chunk shape for a dataset written in row-major order, by heads or by pieces: each chunk is a
/// run of consecutive elements, of even lengths, of 512 KiB or slightly less, so that each is
/// complete before the next begins.
Shape deflate_chunk(const Shape& shape, std::size_t element_size);

/// Throws Error(usage) for --compress if this HDF5 was built without deflate or shuffle.
void require_deflate(int level);

/// Removes the link `name`, a path from the root, if it exists.
void make_room(OutputFile& output, const std::string& name);

/// Creates the group `path` (from the root) and its parents unless they exist. Without time stamps.
void create_group(OutputFile& output, const std::string& path);

/// Properties for new links: missing groups on the way are created.
h5::Handle link_properties();

/// Names the axes of a dataset (HDF5 dimension labels); empty names are skipped. Throws
/// std::invalid_argument if there are more labels than axes.
void label_axes(OutputFile& output, hid_t dataset, const std::string& name,
                const std::vector<std::string>& labels);

}  // namespace attn::io
