#include "io/array_skeleton.hpp"

#include <atomic>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "io/arrays/array_paths.hpp"
#include "io/hdf5/h5_type.hpp"

namespace attn::io {
namespace {

using Metadata = nlohmann::json;

/// Null if the text is not metadata of this program. It may come from anybody: the depth is bounded
/// since nlohmann's library recurses over nested values.
Metadata parse_metadata(const std::string& text) {
  constexpr int most_levels = 4;
  bool too_deep = false;
  const auto is_shallow = [&](int depth, Metadata::parse_event_t event, const Metadata&) {
    const bool opens = event == Metadata::parse_event_t::object_start ||
                       event == Metadata::parse_event_t::array_start;
    if (opens && depth > most_levels) too_deep = true;
    return !too_deep;
  };
  Metadata metadata = Metadata::parse(text, is_shallow, false);
  if (too_deep || !metadata.is_object()) return {};
  const auto schema = metadata.find("schema");
  if (schema == metadata.end() || *schema != "attnkit/1") return {};
  return metadata;
}

h5::Handle file_in_memory() {
  static std::atomic<int> made{0};
  constexpr std::size_t growth = std::size_t{64} << 10;
  const h5::Handle access = h5::properties(H5P_FILE_ACCESS);
  h5::require(H5Pset_fapl_core(access.get(), growth, false), "properties");
  h5::require(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V18, H5F_LIBVER_LATEST), "properties");
  // HDF5 tells files in memory apart by their names.
  const std::string name = "attnkit-metadata-" + std::to_string(++made);
  return h5::made(H5Fcreate(name.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), H5Fclose,
                  "file in memory");
}

class Skeleton {
 public:
  explicit Skeleton(const std::string& label) : label_(label), file_(file_in_memory()) {}

  h5::Handle make(const Metadata& metadata, const std::map<std::string, std::string>& arrays) {
    set_attributes(file_.get(), "", metadata.value("attributes", Metadata::object()));
    for (const auto& [path, values] : member(metadata, "groups").items()) {
      h5::Handle group(
          H5Gcreate2(file_.get(), required(path), intermediate().get(), H5P_DEFAULT, H5P_DEFAULT),
          H5Gclose);
      if (!group) {
        // The group was made on the way to another one.
        group = h5::Handle(H5Gopen2(file_.get(), required(path), H5P_DEFAULT), H5Gclose);
      }
      if (!group) refuse("a group " + path + " that cannot be made");
      set_attributes(group.get(), path, values);
    }
    const Metadata& datasets = member(metadata, "datasets");
    for (const auto& [path, name] : arrays) {
      const h5::Handle dataset = make_dataset(path, H5T_NATIVE_CHAR, no_elements().get());
      const auto found = datasets.find(path);
      if (found != datasets.end()) set_attributes(dataset.get(), path, *found);
    }
    for (const auto& [path, text] : member(metadata, "strings").items()) {
      write_strings(path, text, datasets);
    }
    return std::move(file_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(Failure::input, label_ + " has malformed metadata: " + what,
                "another program may have changed the file; make it again");
  }

  const char* required(const std::string& path) const {
    if (!can_be_path(path)) refuse("'" + path.substr(0, 80) + "' cannot be a path");
    return path.c_str();
  }

  const Metadata& member(const Metadata& metadata, const char* name) const {
    static const Metadata none = Metadata::object();
    const auto found = metadata.find(name);
    if (found == metadata.end()) return none;
    if (!found->is_object()) refuse(std::string(name) + " is not an object");
    return *found;
  }

  static h5::Handle intermediate() {
    h5::Handle properties = h5::properties(H5P_LINK_CREATE);
    h5::require(H5Pset_create_intermediate_group(properties.get(), 1), "properties");
    return properties;
  }

  static h5::Handle no_elements() { return h5::made(H5Screate(H5S_NULL), H5Sclose, "dataspace"); }

  h5::Handle make_dataset(const std::string& path, hid_t type, hid_t space) const {
    h5::Handle dataset(H5Dcreate2(file_.get(), required(path), type, space, intermediate().get(),
                                  H5P_DEFAULT, H5P_DEFAULT),
                       H5Dclose);
    if (!dataset) refuse("'" + path.substr(0, 80) + "' is two things at once");
    return dataset;
  }

  void set_attributes(hid_t object, const std::string& path, const Metadata& values) const {
    if (!values.is_object()) refuse("the attributes of '" + path.substr(0, 80) + "'");
    for (const auto& [name, value] : values.items()) {
      if (!set_attribute(object, name, value)) {
        refuse("the attribute " + name.substr(0, 80) + " of '" + path.substr(0, 80) + "'");
      }
    }
  }

  // A list has one type: its elements' type, or double if integers and fractions are mixed.
  static bool set_attribute(hid_t object, const std::string& name, const Metadata& value) {
    const Metadata::array_t list =
        value.is_array() ? value.get<Metadata::array_t>() : Metadata::array_t{value};
    if (list.empty() || name.empty()) return false;
    bool text = true;
    bool integer = true;
    bool number = true;
    for (const Metadata& one : list) {
      text = text && one.is_string();
      integer = integer && one.is_number_integer();
      number = number && one.is_number();
    }
    const h5::Handle space = h5::dataspace(value.is_array() ? std::vector<hsize_t>{list.size()}
                                                            : std::vector<hsize_t>{});
    if (text) {
      std::vector<const char*> pointers;
      for (const Metadata& one : list)
        pointers.push_back(one.get_ptr<const std::string*>()->c_str());
      return put(object, name, h5::text_type().get(), space.get(), pointers.data());
    }
    if (integer) {
      std::vector<std::int64_t> numbers;
      for (const Metadata& one : list) numbers.push_back(one.get<std::int64_t>());
      return put(object, name, H5T_NATIVE_INT64, space.get(), numbers.data());
    }
    if (!number) return false;
    std::vector<double> numbers;
    for (const Metadata& one : list) numbers.push_back(one.get<double>());
    return put(object, name, H5T_NATIVE_DOUBLE, space.get(), numbers.data());
  }

  static bool put(hid_t object, const std::string& name, hid_t type, hid_t space,
                  const void* values) {
    const h5::Handle attribute(
        H5Acreate2(object, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
    return attribute && H5Awrite(attribute.get(), type, values) >= 0;
  }

  void write_strings(const std::string& path, const Metadata& text,
                     const Metadata& datasets) const {
    const auto bad = [&] { refuse("the strings of '" + path.substr(0, 80) + "'"); };
    if (!text.is_object() || !text.contains("shape") || !text.contains("values")) bad();
    const Metadata& values = text["values"];
    if (!text["shape"].is_array() || !values.is_array()) bad();
    std::vector<hsize_t> shape;
    hsize_t count = 1;
    for (const Metadata& length : text["shape"]) {
      if (!length.is_number_unsigned() || length.get<hsize_t>() > values.size()) bad();
      shape.push_back(length.get<hsize_t>());
      count *= shape.back();
      if (count > values.size()) bad();
    }
    if (count != values.size() || shape.size() > Shape::most_axes) bad();
    std::vector<const char*> pointers;
    for (const Metadata& value : values) {
      if (!value.is_string()) bad();
      pointers.push_back(value.get_ptr<const std::string*>()->c_str());
    }
    const h5::Handle type = h5::text_type();
    const h5::Handle dataset = make_dataset(path, type.get(), h5::dataspace(shape).get());
    if (count > 0 &&
        H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, pointers.data()) < 0) {
      bad();
    }
    const auto found = datasets.find(path);
    if (found != datasets.end()) set_attributes(dataset.get(), path, *found);
  }

  const std::string& label_;
  h5::Handle file_;
};

}  // namespace

ArraySkeleton array_skeleton(const ArrayFile& arrays, const std::string& label) {
  Metadata metadata = parse_metadata(arrays.metadata());
  ArraySkeleton skeleton;
  skeleton.flat = metadata.is_null();
  if (skeleton.flat) {
    metadata = Metadata::object();
    skeleton.paths = array_paths(arrays.names());
  } else {
    for (const std::string& name : arrays.names()) skeleton.paths[name] = name;
  }
  const h5::Lock lock;
  h5::set_subject(label);
  const h5::Quiet expected;  // objects that cannot be made are refused in our own words
  skeleton.file = Skeleton(label).make(metadata, skeleton.paths);
  return skeleton;
}

}  // namespace attn::io
