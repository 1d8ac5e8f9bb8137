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

[[noreturn]] void refuse(const std::string& what, const std::string& name, const char* expected) {
  throw Error(Failure::input, what + ": attribute " + name + " is not " + expected);
}

/// The attribute where it is there; refused where it has more or fewer elements than one.
std::optional<Attribute> single(hid_t object, const std::string& name, const std::string& what,
                                const char* expected) {
  if (H5Aexists(object, name.c_str()) <= 0) return {};
  Attribute found{Handle(H5Aopen(object, name.c_str(), H5P_DEFAULT), H5Aclose), {}};
  if (!found.handle) refuse(what, name, expected);
  const Handle space(H5Aget_space(found.handle.get()), H5Sclose);
  found.type = Handle(H5Aget_type(found.handle.get()), H5Tclose);
  if (!space || !found.type || H5Sget_simple_extent_npoints(space.get()) != 1) {
    refuse(what, name, expected);
  }
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

std::optional<double> number_attribute(hid_t object, const std::string& name,
                                       const std::string& what) {
  constexpr const char* expected = "one number";
  const std::optional<Attribute> found = single(object, name, what, expected);
  if (!found) return {};
  const bool number = found->type_class == H5T_FLOAT || found->type_class == H5T_INTEGER ||
                      stored_type(found->type.get()).dtype == DType::boolean;
  double value = 0;
  if (!number || H5Aread(found->handle.get(), H5T_NATIVE_DOUBLE, &value) < 0) {
    refuse(what, name, expected);
  }
  return value;
}

std::optional<std::string> text_attribute(hid_t object, const std::string& name,
                                          const std::string& what) {
  constexpr const char* expected = "one text";
  const std::optional<Attribute> found = single(object, name, what, expected);
  if (!found) return {};
  if (found->type_class != H5T_STRING) refuse(what, name, expected);
  if (H5Tis_variable_str(found->type.get()) > 0) {
    char* value = nullptr;
    if (H5Aread(found->handle.get(), found->type.get(), &value) < 0) refuse(what, name, expected);
    std::string text = value == nullptr ? "" : value;
    H5free_memory(value);
    return text;
  }
  std::string bytes(H5Tget_size(found->type.get()), '\0');
  if (H5Aread(found->handle.get(), found->type.get(), bytes.data()) < 0) {
    refuse(what, name, expected);
  }
  return unpadded(bytes.data(), found->type.get());
}

}  // namespace attn::io::h5
