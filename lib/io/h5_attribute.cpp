#include "io/h5_attribute.hpp"

#include "io/h5_type.hpp"
#include "tensor/error.hpp"

namespace attn::io::h5 {
namespace {

struct Attribute {
  Handle handle;
  Handle type;
  H5T_class_t type_class = H5T_NO_CLASS;
};

/// The attribute where it is there and has exactly one element.
std::optional<Attribute> single(hid_t object, const std::string& name) {
  if (H5Aexists(object, name.c_str()) <= 0) return {};
  Attribute found{Handle(H5Aopen(object, name.c_str(), H5P_DEFAULT), H5Aclose), {}};
  if (!found.handle) return {};
  const Handle space(H5Aget_space(found.handle.get()), H5Sclose);
  if (!space || H5Sget_simple_extent_npoints(space.get()) != 1) return {};
  found.type = Handle(H5Aget_type(found.handle.get()), H5Tclose);
  if (!found.type) return {};
  found.type_class = H5Tget_class(found.type.get());
  return found;
}

herr_t add_name(hid_t, const char* name, const H5A_info_t*, void* data) {
  try {
    static_cast<std::vector<std::string>*>(data)->emplace_back(name);
    return 0;
  } catch (...) {
    return -1;  // no exception may pass through C
  }
}

}  // namespace

std::vector<std::string> attribute_names(hid_t object, const std::string& what) {
  std::vector<std::string> names;
  if (H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, nullptr, add_name, &names) < 0) {
    throw Error(Failure::input, what + ": the attributes cannot be listed: " + last_reason().text);
  }
  return names;
}

std::optional<double> number_attribute(hid_t object, const std::string& name) {
  const std::optional<Attribute> found = single(object, name);
  if (!found) return {};
  if (found->type_class != H5T_FLOAT && found->type_class != H5T_INTEGER &&
      stored_type(found->type.get()).dtype != DType::boolean) {
    return {};
  }
  double value = 0;
  if (H5Aread(found->handle.get(), H5T_NATIVE_DOUBLE, &value) < 0) return {};
  return value;
}

std::optional<std::string> text_attribute(hid_t object, const std::string& name) {
  const std::optional<Attribute> found = single(object, name);
  if (!found || found->type_class != H5T_STRING) return {};
  if (H5Tis_variable_str(found->type.get()) > 0) {
    char* value = nullptr;
    if (H5Aread(found->handle.get(), found->type.get(), &value) < 0) return {};
    std::string text = value == nullptr ? "" : value;
    H5free_memory(value);
    return text;
  }
  std::string bytes(H5Tget_size(found->type.get()), '\0');
  if (H5Aread(found->handle.get(), found->type.get(), bytes.data()) < 0) return {};
  return unpadded(bytes.data(), found->type.get());
}

}  // namespace attn::io::h5
