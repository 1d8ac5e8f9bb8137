#include "io/hdf5/stored_lengths.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "attnkit/error.hpp"

namespace attn::io::h5 {
namespace {

constexpr const char* tag_of_stored = "attnkit: as stored";

// The tag of an opaque type keeps this conversion from the types of other users of HDF5 in the
// process, such as those that h5py has for Python's objects.
bool is_as_stored(hid_t type) {
  char* const tag = H5Tget_tag(type);
  const bool found = tag != nullptr && std::strcmp(tag, tag_of_stored) == 0;
  if (tag != nullptr) H5free_memory(tag);
  return found;
}

// A value of variable length is stored as its length and the place of its bytes in the file: four
// bytes, an address, and four bytes, in little-endian order. HDF5 shows the values only, so the
// stored bytes are read through a conversion to opaque bytes.
herr_t keep_as_stored(hid_t from, hid_t to, H5T_cdata_t* conversion, size_t, size_t, size_t, void*,
                      void*, hid_t) {
  if (conversion->command != H5T_CONV_INIT) return 0;
  conversion->need_bkg = H5T_BKG_NO;
  return is_as_stored(to) && H5Tget_size(from) == H5Tget_size(to) ? 0 : -1;
}

std::size_t address_bytes(hid_t file) {
  const Handle settings(H5Fget_create_plist(file), H5Pclose);
  std::size_t of_addresses = 0;
  std::size_t of_sizes = 0;
  const bool found = settings && H5Pget_sizes(settings.get(), &of_addresses, &of_sizes) >= 0;
  return found ? of_addresses : 0;
}

std::uint64_t little_endian(const unsigned char* bytes, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t n = count; n > 0; --n) value = value << 8 | bytes[n - 1];
  return value;
}

// The elements as stored; empty if they cannot be read in this way.
std::vector<unsigned char> stored_elements(hid_t type, std::size_t count, std::size_t size,
                                           const std::function<bool(hid_t, void*)>& read) {
  const Handle opaque = made(H5Tcreate(H5T_OPAQUE, size), H5Tclose, "datatype");
  if (H5Tset_tag(opaque.get(), tag_of_stored) < 0) return {};
  // The conversion applies to all types of variable length, and exists only while it is needed.
  if (H5Tregister(H5T_PERS_SOFT, tag_of_stored, type, opaque.get(), keep_as_stored) < 0) return {};
  std::vector<unsigned char> elements(count * size);
  const bool was_read = read(opaque.get(), elements.data());
  H5Tunregister(H5T_PERS_SOFT, tag_of_stored, type, opaque.get(), keep_as_stored);
  if (!was_read) elements.clear();
  return elements;
}

}  // namespace

void require_stored_lengths(hid_t attribute, const std::string& what) {
  const Handle type(H5Aget_type(attribute), H5Tclose);
  const Handle space(H5Aget_space(attribute), H5Sclose);
  if (!type || !space) return;
  const auto count = std::max<hssize_t>(0, H5Sget_simple_extent_npoints(space.get()));
  require_stored_lengths(
      attribute, type.get(), static_cast<std::size_t>(count),
      [&](hid_t as, void* memory) { return H5Aread(attribute, as, memory) >= 0; }, what);
}

void require_stored_lengths(hid_t object, hid_t type, std::size_t count,
                            const std::function<bool(hid_t, void*)>& read,
                            const std::string& what) {
  const bool text = H5Tis_variable_str(type) > 0;
  if (!text && H5Tget_class(type) != H5T_VLEN) return;
  std::size_t element = 1;
  if (!text) {
    const Handle base(H5Tget_super(type), H5Tclose);
    element = base ? H5Tget_size(base.get()) : 1;
  }
  const Handle file(H5Iget_file_id(object), H5Fclose);
  hsize_t file_bytes = 0;
  if (!file || count < 1 || H5Fget_filesize(file.get(), &file_bytes) < 0) return;
  const std::size_t addresses = address_bytes(file.get());
  const std::size_t size = 4 + addresses + 4;
  const std::vector<unsigned char> elements = stored_elements(type, count, size, read);
  std::uint64_t claimed = 0;
  for (std::size_t at = 0; at < elements.size(); at += size) {
    const bool is_null = little_endian(elements.data() + at + 4, addresses) == 0;
    if (!is_null) claimed += little_endian(elements.data() + at, 4) * element;
    if (claimed <= file_bytes) continue;
    throw Error(Failure::input, what + " is damaged: its values claim at least " +
                                    std::to_string(claimed) + " bytes, but the file has only " +
                                    std::to_string(file_bytes));
  }
}

}  // namespace attn::io::h5
