// A plug-in of HDF5 with a filter, for tests: it inverts bits, and asks HDF5 about the identifiers
// that it is given, as filters that know the size of an element do.

#include <H5PLextern.h>

#include <cstddef>

namespace {

constexpr H5Z_filter_t filter_id = 300;  // of those that HDF5 leaves to tests

herr_t set_element_size(hid_t creation, hid_t type, hid_t /*space*/) {
  const auto size = static_cast<unsigned>(H5Tget_size(type));
  if (size == 0) return -1;
  return H5Pmodify_filter(creation, filter_id, H5Z_FLAG_MANDATORY, 1, &size);
}

std::size_t invert(unsigned /*flags*/, std::size_t count, const unsigned* values, std::size_t bytes,
                   std::size_t* /*room*/, void** buffer) {
  if (count != 1 || bytes % values[0] != 0) return 0;
  auto* const data = static_cast<unsigned char*>(*buffer);
  for (std::size_t n = 0; n < bytes; ++n) data[n] = static_cast<unsigned char>(~data[n]);
  return bytes;
}

const H5Z_class2_t description = {H5Z_CLASS_T_VERS, filter_id,        1,     1, "invert",
                                  nullptr,          set_element_size, invert};

}  // namespace

extern "C" H5PL_type_t H5PLget_plugin_type() { return H5PL_TYPE_FILTER; }
extern "C" const void* H5PLget_plugin_info() { return &description; }
