#include "io/hdf5/h5_attribute.hpp"

#include <algorithm>
#include <limits>

#include "attnkit/error.hpp"
#include "io/hdf5/h5_type.hpp"
#include "io/hdf5/h5_watch.hpp"
#include "io/hdf5/stored_lengths.hpp"

namespace attn::io::h5 {
namespace {

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

struct Attribute {
  Handle handle;
  Handle type;
  H5T_class_t type_class = H5T_NO_CLASS;
};

[[noreturn]] void refuse(const std::string& what, const std::string& name, const char* expected) {
  throw Error(Failure::input, what + ": attribute " + name + " is not " + expected);
}

/// The attribute if it exists; throws if it does not have exactly one element.
std::optional<Attribute> single(hid_t object, const std::string& name, const std::string& what,
                                const char* expected) {
  const htri_t exists = H5Aexists(object, name.c_str());
  if (exists < 0) refuse(what, name, "readable");
  if (exists == 0) return {};
  Attribute found{Handle(H5Aopen(object, name.c_str(), H5P_DEFAULT), H5Aclose), {}};
  if (!found.handle) refuse(what, name, expected);
  require_stored_lengths(found.handle.get(), what + ": attribute " + name);
  const Handle space(H5Aget_space(found.handle.get()), H5Sclose);
  found.type = Handle(H5Aget_type(found.handle.get()), H5Tclose);
  if (!space || !found.type || H5Sget_simple_extent_npoints(space.get()) != 1) {
    refuse(what, name, expected);
  }
  found.type_class = H5Tget_class(found.type.get());
  return found;
}

herr_t add_name(hid_t, const char* name, const H5A_info_t*, void* data) {
  beat();
  try {
    static_cast<std::vector<std::string>*>(data)->emplace_back(name);
    return 0;
  } catch (...) {
    return -1;  // an exception must not pass through C code
  }
}

/// The strings stored one after the other in `type`.
std::vector<std::string> texts(const Attribute& attribute, Index count) {
  std::vector<std::string> values;
  if (H5Tis_variable_str(attribute.type.get()) > 0) {
    std::vector<char*> pointers(static_cast<std::size_t>(count), nullptr);
    if (H5Aread(attribute.handle.get(), attribute.type.get(), pointers.data()) < 0) return values;
    for (char* pointer : pointers) {
      values.emplace_back(pointer == nullptr ? "" : pointer);
      H5free_memory(pointer);
    }
    return values;
  }
  const std::size_t size = H5Tget_size(attribute.type.get());
  std::string bytes(size * static_cast<std::size_t>(count), '\0');
  if (H5Aread(attribute.handle.get(), attribute.type.get(), bytes.data()) < 0) return values;
  for (Index n = 0; n < count; ++n) {
    values.push_back(
        unpadded(bytes.data() + static_cast<std::size_t>(n) * size, attribute.type.get()));
  }
  return values;
}

template <class T>
std::vector<T> numbers(const Attribute& attribute, Index count, hid_t type) {
  std::vector<T> values(static_cast<std::size_t>(count));
  if (H5Aread(attribute.handle.get(), type, values.data()) < 0) values.clear();
  return values;
}

AttributeValue value_of(hid_t object, const std::string& name, const std::string& what,
                        Index most_values) {
  Attribute attribute{Handle(H5Aopen(object, name.c_str(), H5P_DEFAULT), H5Aclose), {}};
  if (!attribute.handle) refuse(what, name, "readable");
  attribute.type = made(H5Aget_type(attribute.handle.get()), H5Tclose, "datatype");
  const Handle space = made(H5Aget_space(attribute.handle.get()), H5Sclose, "dataspace");
  const std::string type = stored_type(attribute.type.get()).description;
  const auto count = static_cast<Index>(H5Sget_simple_extent_npoints(space.get()));
  AttributeValue made_of;
  made_of.name = name;
  const std::vector<hsize_t> extents = extents_of(space.get());
  made_of.shape = Shape(extents.begin(), extents.end());
  made_of.value =
      AttributeValue::Described{type + (count == 1 ? "" : ", " + std::to_string(count)), count < 1};
  if (count < 1 || count > most_values) return made_of;
  const DType dtype = stored_type(attribute.type.get()).dtype;
  const auto readable = [&](auto values) {
    if (values.empty()) refuse(what, name, "readable");
    return values;
  };
  if (dtype == DType::string) {
    require_stored_lengths(attribute.handle.get(), what + ": attribute " + name);
    made_of.value = readable(texts(attribute, count));
  } else if (is_integral(dtype)) {
    const auto values = readable(numbers<std::int64_t>(attribute, count, H5T_NATIVE_INT64));
    // Values that do not fit are read as the largest number that does.
    const bool clipped = dtype == DType::u64 && std::count(values.begin(), values.end(), largest);
    made_of.value = values;
    if (clipped) made_of.value = numbers<double>(attribute, count, H5T_NATIVE_DOUBLE);
  } else if (is_floating(dtype) && H5Tget_class(attribute.type.get()) == H5T_FLOAT) {
    made_of.value = readable(numbers<double>(attribute, count, H5T_NATIVE_DOUBLE));
  }
  return made_of;
}

}  // namespace

std::vector<AttributeValue> attributes(hid_t object, const std::string& what, Index most_values) {
  std::vector<AttributeValue> values;
  for (const std::string& name : attribute_names(object, what)) {
    values.push_back(value_of(object, name, what, most_values));
  }
  return values;
}

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
