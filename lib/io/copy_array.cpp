#include "io/copy_array.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "io/arrays/array_paths.hpp"
#include "io/arrays/stored_array.hpp"
#include "io/hdf5/dataset_creation.hpp"
#include "io/hdf5/h5_type.hpp"
#include "io/hdf5/h5_watch.hpp"
#include "tensor/buffer.hpp"
#include "tensor/pieces.hpp"
#include "tensor/utf8.hpp"

namespace attn::io {
namespace {

[[noreturn]] void refuse_copy(const std::string& address, const std::string& why) {
  throw Error(Failure::input, address + " cannot be copied: " + why);
}

/// Refuses a name that leads through a dataset or to an existing group, since HDF5 reads a slash as
/// a group separator and cannot create such a dataset.
void require_free_name(const ArraySource::Impl& source, OutputFile& output,
                       const std::string& path) {
  if (!can_be_path(path)) {
    refuse_copy(source.address, "a bundle cannot have a dataset of this name");
  }
  for (std::size_t end = path.find('/'); end != std::string::npos; end = path.find('/', end + 1)) {
    const h5::Kind kind = h5::kind_of(output.root(), path.substr(0, end));
    if (kind != h5::Kind::absent && kind != h5::Kind::group) {
      refuse_copy(source.address, "a dataset " + path.substr(0, end) + " exists already");
    }
  }
  if (h5::linked(output.root(), path))
    refuse_copy(source.address, "an object " + path + " exists already");
}

void copy_text(const ArraySource::Impl& source, OutputFile& output, const std::string& path) {
  const std::vector<std::string> values =
      element_count(source.shape) == 0 ? std::vector<std::string>() : source.read_strings();
  for (std::size_t n = 0; n < values.size(); ++n) {
    const bool cut = values[n].find('\0') != std::string::npos;
    if (!cut && is_utf8(values[n])) continue;
    refuse_copy(source.address,
                fmt::format("the string at [{}] {}",
                            fmt::join(unravel(static_cast<Index>(n), source.shape), ", "),
                            cut ? "has a NUL inside" : "is not UTF-8"));
  }
  const h5::Handle type = h5::text_type();
  h5::Handle dataset = create_dataset(output, path, type.get(), source.shape, {});
  std::vector<const char*> pointers;
  for (const std::string& value : values) pointers.push_back(value.c_str());
  if (!pointers.empty()) {
    const h5::Unwatched writing;
    output.check(
        H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, pointers.data()),
        output.address_of(path));
  }
  output.close(dataset, output.address_of(path));
}

}  // namespace

void copy_array(const ArraySource::Impl& source, OutputFile& output, const std::string& path) {
  require_free_name(source, output, path);
  if (source.dtype == DType::string) return copy_text(source, output, path);
  if (source.dtype == DType::other) {
    throw Error(Failure::input,
                source.address + " cannot be copied: it is of type " + source.description);
  }
  const bool widened = source.dtype == DType::bf16;
  const h5::Handle type = h5::file_type(widened ? DType::f32 : source.dtype);
  const h5::Handle memory_type = h5::memory_type(widened ? DType::f32 : source.dtype);
  h5::Handle dataset = create_dataset(output, path, type.get(), source.shape, {});
  const std::size_t size = H5Tget_size(type.get());
  const Index limit = piece_elements(size);
  const Buffer<char> buffer(std::min(limit, element_count(source.shape)) *
                            static_cast<Index>(size));
  const h5::Handle space = h5::made(H5Dget_space(dataset.get()), H5Sclose, "dataspace");
  for_each_piece(source.shape, limit, [&](const Piece& piece) {
    if (widened) {
      read_floats(source, piece.start, piece.count, reinterpret_cast<float*>(buffer.data()));
    } else {
      source.read_stored(piece.start, piece.count, buffer.data());
    }
    const std::vector<hsize_t> count(piece.count.begin(), piece.count.end());
    h5::select(space.get(), {piece.start.begin(), piece.start.end()},
               std::vector<hsize_t>(count.size(), 1), count);
    const h5::Handle memory = h5::dataspace(count);
    const h5::Unwatched writing;
    output.check(H5Dwrite(dataset.get(), memory_type.get(), memory.get(), space.get(), H5P_DEFAULT,
                          buffer.data()),
                 output.address_of(path));
  });
  output.close(dataset, output.address_of(path));
}

}  // namespace attn::io
