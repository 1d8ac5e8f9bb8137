#include "io/hdf5/open_dataset.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <stdexcept>
#include <utility>

#include "attnkit/error.hpp"
#include "io/hdf5/h5_watch.hpp"
#include "io/hdf5/stored_lengths.hpp"
#include "io/hdf5/virtual_parts.hpp"
#include "io/input_files.hpp"
#include "system/descriptor.hpp"
#include "system/system_reason.hpp"

namespace attn::io {
namespace {

constexpr std::size_t most_cached = std::size_t{32} << 20;

struct Chunks {
  std::vector<hsize_t> shape;  // no axes: the dataset is not chunked
  std::size_t element_size = 0;
  std::size_t bytes = 0;  // size of one chunk
  bool filtered = false;
};

Chunks chunks_of(hid_t dataset) {
  Chunks chunks;
  const h5::Handle creation = h5::made(H5Dget_create_plist(dataset), H5Pclose, "properties");
  if (H5Pget_layout(creation.get()) != H5D_CHUNKED) return chunks;
  const h5::Handle space = h5::made(H5Dget_space(dataset), H5Sclose, "dataspace");
  const h5::Handle type = h5::made(H5Dget_type(dataset), H5Tclose, "datatype");
  chunks.shape = h5::extents_of(space.get());
  H5Pget_chunk(creation.get(), static_cast<int>(chunks.shape.size()), chunks.shape.data());
  chunks.element_size = H5Tget_size(type.get());
  chunks.bytes = chunks.element_size;
  for (const hsize_t extent : chunks.shape) chunks.bytes *= extent;
  chunks.filtered = H5Pget_nfilters(creation.get()) > 0;
  return chunks;
}

/// The first filter that this HDF5 does not have, "32015 (zstd)"; empty if it has all of them.
std::string missing_filter(hid_t dataset) {
  const h5::Handle creation = h5::made(H5Dget_create_plist(dataset), H5Pclose, "properties");
  const int filters = H5Pget_nfilters(creation.get());
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0;
    unsigned config = 0;
    std::size_t values = 0;
    std::array<char, 64> name{};
    const H5Z_filter_t filter = H5Pget_filter2(creation.get(), static_cast<unsigned>(i), &flags,
                                               &values, nullptr, name.size(), name.data(), &config);
    if (filter < 0 || H5Zfilter_avail(filter) > 0) continue;
    name.back() = '\0';
    return std::to_string(filter) + (name[0] == '\0' ? "" : " (" + std::string(name.data()) + ")");
  }
  return {};
}

/// Checks one file of external raw storage: HDF5 reads zeros beyond the end of a file that is too
/// short.
void require_raw_bytes(const std::string& path, const SourceReference& reference, hsize_t offset,
                       hsize_t bytes) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    throw Error(Failure::input, description_of(reference) + ": " + system_reason(errno));
  }
  const auto size = static_cast<hsize_t>(status.st_size);
  if (bytes <= size && offset <= size - bytes) return;
  throw Error(Failure::input, description_of(reference) + ": that file has " +
                                  std::to_string(size) + " bytes, expected at least " +
                                  std::to_string(offset + bytes));
}

/// Checks the files in which the values of `dataset` are stored.
void require_raw_files(hid_t dataset, hid_t creation, const InputFile& file,
                       const std::string& address) {
  const h5::Handle space = h5::made(H5Dget_space(dataset), H5Sclose, "dataspace");
  const h5::Handle type = h5::made(H5Dget_type(dataset), H5Tclose, "datatype");
  hsize_t left = H5Tget_size(type.get());
  for (const hsize_t extent : h5::extents_of(space.get())) left *= extent;
  FollowedSource followed{FollowedSource::Kind::raw_storage, address, {}};
  const int count = H5Pget_external_count(creation);
  for (int i = 0; i < count; ++i) {
    std::array<char, 4096> name{};
    off_t offset = 0;
    hsize_t size = 0;
    h5::require(H5Pget_external(creation, static_cast<unsigned>(i), name.size() - 1, name.data(),
                                &offset, &size),
                "external storage");
    const SourceReference reference = {FollowedSource::Kind::raw_storage, address, name.data()};
    const std::string path = file.files->source_path(file, reference);
    const hsize_t bytes = std::min(size, left);
    require_raw_bytes(path, reference, static_cast<hsize_t>(offset), bytes);
    left -= bytes;
    followed.files.push_back(path);
  }
  if (left > 0) {
    throw Error(Failure::input, address + " is damaged: its external files have room for " +
                                    std::to_string(left) + " bytes less than its values take");
  }
  file.files->followed(followed);
}

/// HDF5 would allocate and zero whatever size a damaged index claims for a compressed chunk.
void require_stored_chunks(hid_t dataset, const InputFile& file, const std::string& address) {
  hsize_t file_size = 0;
  if (H5Fget_filesize(file.handle.get(), &file_size) < 0) return;
  const hsize_t stored = H5Dget_storage_size(dataset);
  if (stored <= file_size) return;
  throw Error(Failure::input, address + " is damaged: its chunks take " + std::to_string(stored) +
                                  " bytes, more than the " + std::to_string(file_size) +
                                  " of the file");
}

/// The place of a contiguous dataset, if the file has all of its bytes.
OpenDataset::Place place_of(hid_t dataset, hid_t creation, const InputFile& file) {
  if (!file.bytes || H5Pget_layout(creation) != H5D_CONTIGUOUS ||
      H5Pget_external_count(creation) > 0) {
    return {};
  }
  const h5::Handle space = h5::made(H5Dget_space(dataset), H5Sclose, "dataspace");
  const h5::Handle type = h5::made(H5Dget_type(dataset), H5Tclose, "datatype");
  const std::vector<hsize_t> extents = h5::extents_of(space.get());
  const auto elements = static_cast<hsize_t>(H5Sget_simple_extent_npoints(space.get()));
  const std::size_t element_size = H5Tget_size(type.get());
  const hsize_t stored = H5Dget_storage_size(dataset);
  const haddr_t first = H5Dget_offset(dataset);
  const auto end = static_cast<haddr_t>(file.bytes->size());
  const bool whole = element_size > 0 && stored > 0 && stored / element_size == elements &&
                     first != HADDR_UNDEF && first < end && stored <= end - first;
  if (!whole) return {};
  return {file.bytes, static_cast<Index>(first), {extents.begin(), extents.end()}};
}

/// See OpenDataset::most_written, for datasets that are not virtual. HDF5 itself would count chunks
/// one by one, missing chunks too.
double written_at_most(hid_t creation, const Chunks& chunks, const InputFile& file) {
  // Raw files have all bytes: require_raw_files.
  if (H5Pget_external_count(creation) > 0) return std::numeric_limits<double>::infinity();
  hsize_t file_size = 0;
  h5::require(H5Fget_filesize(file.handle.get(), &file_size), "file");
  const auto size = static_cast<double>(file_size);
  // An index has an address for each chunk, which alone may take as little as a byte.
  constexpr double address = 4;
  return chunks.filtered ? size / address * static_cast<double>(chunks.bytes) : size;
}

h5::Handle raw_access(const InputFile& file) {
  h5::Handle access = h5::properties(H5P_DATASET_ACCESS);
  h5::require(H5Pset_efile_prefix(access.get(), file.folder.c_str()), "properties");
  return access;
}

h5::Handle opened(const Object& object, const h5::Handle& access) {
  const hid_t properties = access ? access.get() : H5P_DEFAULT;
  return h5::Handle(H5Dopen2(object.parent.get(), object.name.c_str(), properties), H5Dclose);
}

[[noreturn]] void refuse_unopened(const std::string& address, const h5::Reason& why) {
  throw Error(Failure::input, address + " cannot be opened: " + why.text);
}

/// How to open `dataset` for reading: raw files are looked up beside its own file. Chunks get a
/// cache of suitable size, or none if they are uncompressed and larger than the cache, since HDF5
/// then reads only the requested bytes.
h5::Handle suitable_access(hid_t dataset, hid_t creation, const Chunks& chunks,
                           const InputFile& file, const std::string& address) {
  if (H5Pget_external_count(creation) > 0) {
    require_raw_files(dataset, creation, file, address);
    return raw_access(file);
  }
  if (chunks.shape.empty() || (!chunks.filtered && chunks.bytes > most_cached)) return {};
  const h5::Handle space = h5::made(H5Dget_space(dataset), H5Sclose, "dataspace");
  return cached_access(h5::extents_of(space.get()), chunks.shape, chunks.element_size, 1);
}

}  // namespace

OpenDataset::OpenDataset(const Object& object, std::string address, int depth)
    : handle_(opened(object, {})), address_(std::move(address)) {
  try {
    complete(object, depth);
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& error) {
    // HDF5's reading of a header is inconsistent only if the header is damaged.
    throw Error(Failure::input, address_ + " is damaged: " + error.what());
  }
}

void OpenDataset::complete(const Object& object, int depth) {
  if (!handle_) {
    const h5::Reason why = h5::last_reason();
    // HDF5 requires the prefix with which the dataset is already open.
    handle_ = opened(object, raw_access(*object.file));
    if (!handle_) refuse_unopened(address_, why);
  }
  const h5::Handle creation = h5::made(H5Dget_create_plist(handle_.get()), H5Pclose, "properties");
  if (H5Pget_layout(creation.get()) == H5D_VIRTUAL) {
    parts_ = std::make_unique<VirtualParts>(handle_.get(), object.file, address_, depth);
    most_written_ = parts_->most_written();
    return;
  }
  place_ = place_of(handle_.get(), creation.get(), *object.file);
  const Chunks chunks = chunks_of(handle_.get());
  chunk_ = Shape(chunks.shape.begin(), chunks.shape.end());
  most_written_ = written_at_most(creation.get(), chunks, *object.file);
  if (chunks.filtered) {
    require_stored_chunks(handle_.get(), *object.file, address_);
    packed_chunk_bytes_ = static_cast<std::int64_t>(chunks.bytes);
  }
  const h5::Handle access =
      suitable_access(handle_.get(), creation.get(), chunks, *object.file, address_);
  if (!access) return;
  // Cache and prefix are fixed by the first handle that is still open.
  handle_.reset();
  handle_ = opened(object, access);
  if (!handle_) refuse_unopened(address_, h5::last_reason());
}

OpenDataset::~OpenDataset() = default;
OpenDataset::OpenDataset(OpenDataset&&) noexcept = default;
OpenDataset& OpenDataset::operator=(OpenDataset&&) noexcept = default;

void OpenDataset::read(hid_t type, hid_t memory, hid_t selection, void* out) const {
  if (parts_) return parts_->read(type, memory, selection, out);
  const h5::Allowance unpacking(packed_bytes(selection));
  const auto count = std::max<hssize_t>(0, H5Sget_select_npoints(selection));
  h5::require_stored_lengths(
      handle_.get(), type, static_cast<std::size_t>(count),
      [&](hid_t as, void* to) {
        const h5::Handle flat = h5::dataspace({static_cast<hsize_t>(count)});
        return H5Dread(handle_.get(), as, flat.get(), selection, H5P_DEFAULT, to) >= 0;
      },
      address_);
  if (H5Dread(handle_.get(), type, memory, selection, H5P_DEFAULT, out) < 0) {
    refuse_unread(handle_.get(), address_, h5::last_reason());
  }
}

std::int64_t OpenDataset::bytes_at_once() const {
  if (parts_) return parts_->bytes_at_once();
  return packed_chunk_bytes_;
}

/// The unpacked size of all compressed chunks that a selection may touch.
std::int64_t OpenDataset::packed_bytes(hid_t selection) const {
  if (packed_chunk_bytes_ == 0 || H5Sget_select_npoints(selection) <= 0) return 0;
  std::vector<hsize_t> low(chunk_.size()), high(chunk_.size());
  h5::require(H5Sget_select_bounds(selection, low.data(), high.data()), "selection");
  auto bytes = static_cast<double>(packed_chunk_bytes_);
  for (std::size_t axis = 0; axis < chunk_.size(); ++axis) {
    const auto length = static_cast<hsize_t>(chunk_[axis]);
    const hsize_t met = high[axis] / length - low[axis] / length + 1;
    bytes *= static_cast<double>(met);
  }
  return static_cast<std::int64_t>(std::min(bytes, 1e18));
}

void refuse_unread(hid_t dataset, const std::string& address, const h5::Reason& why) {
  const std::string filter = missing_filter(dataset);
  if (!filter.empty()) {
    throw Error(
        Failure::input,
        address + " is compressed with filter " + filter + ", which this HDF5 does not have",
        "set HDF5_PLUGIN_PATH to the folder of the filter's plugin");
  }
  throw Error(Failure::input, address + " cannot be read: " + why.text);
}

h5::Handle cached_access(const std::vector<hsize_t>& shape, const std::vector<hsize_t>& chunk,
                         std::size_t element_size, std::size_t strips) {
  h5::Handle access = h5::properties(H5P_DATASET_ACCESS);
  if (chunk.empty()) return access;
  constexpr std::size_t least = std::size_t{1} << 20;
  std::size_t bytes = element_size;
  for (const hsize_t extent : chunk) bytes *= extent;
  const std::size_t across = (shape.back() + chunk.back() - 1) / chunk.back();
  const std::size_t held = std::max<std::size_t>(across * strips, 1);
  const std::size_t cache =
      std::max({least, bytes, bytes > most_cached / held ? most_cached : bytes * held});
  // HDF5 recommends a prime about a hundred times the number of chunks that fit.
  const std::size_t slots = cache / std::max<std::size_t>(bytes, 1) < 100 ? 10007 : 100003;
  // 1: complete chunks are always evicted before incomplete ones.
  h5::require(H5Pset_chunk_cache(access.get(), slots, cache, 1.0), "properties");
  return access;
}

}  // namespace attn::io
