#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "io/hdf5/output_file.hpp"
#include "tensor/shape.hpp"

namespace attn::io {

/// How a dataset lies in its file.
struct Storage {
  Shape chunk;      ///< empty: contiguous; may be larger than the dataset
  int deflate = 0;  ///< level, 1 to 9, for datasets worth it (deflate_worth_bytes); 0: none
};

/// Below that, chunks and their index take about as much as deflating saves.
constexpr std::int64_t deflate_worth_bytes = std::int64_t{64} << 10;

/// A new dataset under the root, in groups made for it where `name` has slashes; what has that
/// name already is replaced. No time stamps. Without deflate all space is allocated now and nothing
/// filled in: its bytes depend on what is written to it alone. With it chunks, of `deflate_chunk`
/// where none are given, are allocated as they are complete. Throws std::invalid_argument for an
/// impossible name. Called under h5::Lock.
h5::Handle create_dataset(OutputFile& output, const std::string& name, hid_t type,
                          const Shape& shape, const Storage& storage);

/// Chunks for a dataset that is written in row-major order, by heads or by pieces: each a run of
/// consecutive elements, of even lengths of 512 KiB or a little less. So one is complete before the
/// next is begun.
Shape deflate_chunk(const Shape& shape, std::size_t element_size);

/// Refuses --compress (Error(usage)) where this HDF5 was built without deflate or shuffle.
void require_deflate(int level);

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
