#include "io/hdf5/output_attribute.hpp"

#include <utility>
#include <vector>

#include "attnkit/error.hpp"
#include "io/hdf5/h5_attribute.hpp"
#include "io/hdf5/h5_type.hpp"
#include "io/hdf5/stored_lengths.hpp"

namespace attn::io {
namespace {

void write_new(OutputFile& file, hid_t object, const std::string& name, hid_t file_type,
               hid_t memory_type, hid_t space, const void* value, const std::string& source = {}) {
  const std::string what = file.description() + ": attribute " + name;
  remove_attribute(file, object, name);
  const h5::Handle attribute =
      file.own(H5Acreate2(object, name.c_str(), file_type, space, H5P_DEFAULT, H5P_DEFAULT),
               H5Aclose, what, source);
  if (value != nullptr) file.check(H5Awrite(attribute.get(), memory_type, value), what, source);
}

void copy_attribute(hid_t source, const std::string& source_name, OutputFile& file, hid_t object,
                    const std::string& name) {
  const h5::Handle attribute(H5Aopen(source, name.c_str(), H5P_DEFAULT), H5Aclose);
  const h5::Handle stored(attribute ? H5Aget_type(attribute.get()) : H5I_INVALID_HID, H5Tclose);
  const h5::Handle space(attribute ? H5Aget_space(attribute.get()) : H5I_INVALID_HID, H5Sclose);
  const auto refuse = [&] {
    throw Error(Failure::input,
                source_name + ": attribute " + name + " cannot be read: " + h5::last_reason().text);
  };
  if (!stored || !space) refuse();
  // A copy, since a committed type belongs to its file.
  const h5::Handle type = h5::copied_type(stored.get());
  if (H5Tget_class(type.get()) == H5T_REFERENCE || H5Tdetect_class(type.get(), H5T_REFERENCE) > 0) {
    return;
  }
  h5::require_stored_lengths(attribute.get(), source_name + ": attribute " + name);
  const hssize_t elements = H5Sget_simple_extent_npoints(space.get());
  std::vector<char> value(static_cast<std::size_t>(elements) * H5Tget_size(type.get()));
  const bool empty = value.empty();
  if (!empty && H5Aread(attribute.get(), type.get(), value.data()) < 0) refuse();
  write_new(file, object, name, type.get(), type.get(), space.get(), empty ? nullptr : value.data(),
            source_name + ": attribute " + name);
  if (!empty && h5::holds_pointers(type.get())) {
    H5Dvlen_reclaim(type.get(), space.get(), H5P_DEFAULT, value.data());
  }
}

}  // namespace

void write_attribute(OutputFile& file, hid_t object, const std::string& name, double value) {
  write_new(file, object, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, h5::dataspace({}).get(), &value);
}

void write_attribute(OutputFile& file, hid_t object, const std::string& name, std::int64_t value) {
  write_new(file, object, name, H5T_STD_I64LE, H5T_NATIVE_INT64, h5::dataspace({}).get(), &value);
}

void write_attribute(OutputFile& file, hid_t object, const std::string& name,
                     const std::string& value) {
  const h5::Handle type = h5::text_type();
  const char* text = value.c_str();
  write_new(file, object, name, type.get(), type.get(), h5::dataspace({}).get(), &text);
}

void remove_attribute(OutputFile& file, hid_t object, const std::string& name) {
  if (H5Aexists(object, name.c_str()) <= 0) return;
  file.check(H5Adelete(object, name.c_str()), file.description() + ": attribute " + name);
}

void copy_attributes(hid_t source, const std::string& source_name, OutputFile& file, hid_t object,
                     const std::function<bool(const std::string&)>& skip) {
  for (const std::string& name : h5::attribute_names(source, source_name)) {
    if (!skip(name)) copy_attribute(source, source_name, file, object, name);
  }
}

}  // namespace attn::io
