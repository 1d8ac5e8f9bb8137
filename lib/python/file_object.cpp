#include "python/file_object.hpp"

#include <pybind11/stl.h>

#include <optional>
#include <vector>

#include "attnkit/error.hpp"
#include "io/address.hpp"
#include "io/contents.hpp"
#include "python/gil.hpp"
#include "python/python_host.hpp"

namespace attn::python {
namespace {

namespace py = pybind11;

io::InputBundle::Options options_of(const std::string& address) {
  io::InputBundle::Options options;
  options.input = address;
  return options;
}

struct ToPython {
  bool single;

  template <class Number>
  py::object operator()(const std::vector<Number>& values) const {
    if (single && values.size() == 1) return py::cast(values.front());
    return py::cast(values);
  }
  py::object operator()(const std::vector<std::string>& values) const {
    if (single && values.size() == 1) return text_of(values.front());
    py::list texts;
    for (const std::string& value : values) texts.append(text_of(value));
    return texts;
  }
  py::object operator()(const io::AttributeValue::Described& described) const {
    return text_of(described.text);
  }
};

py::dict attributes_of(const std::vector<io::AttributeValue>& attributes) {
  py::dict values;
  for (const io::AttributeValue& attribute : attributes) {
    values[text_of(attribute.name)] =
        std::visit(ToPython{attribute.shape.empty()}, attribute.value);
  }
  return values;
}

py::tuple shape_of(const Shape& shape) {
  return py::tuple(py::cast(std::vector<Index>(shape.begin(), shape.end())));
}

}  // namespace

FileObject::FileObject(const std::string& address) : bundle_(options_of(address)) {
  const io::Address parsed = io::parse_address(address);
  root_ = parsed.file + ":" + (parsed.path == "/" ? "" : parsed.path);
}

py::list FileObject::contents() const {
  std::vector<io::Item> items;
  std::vector<io::AttributeValue> own;
  {
    const WithoutGil released;
    items = io::contents(bundle_);
    own = io::root_attributes(bundle_);
  }
  py::list all;
  all.append(py::make_tuple("", true, "", py::tuple(), attributes_of(own)));
  for (const io::Item& item : items) {
    all.append(py::make_tuple(text_of(item.path), item.is_group, item.type, shape_of(item.shape),
                              attributes_of(item.attributes)));
  }
  return all;
}

py::object FileObject::read(const std::string& path, const Shape& start, const Shape& count) const {
  std::optional<ArraySource> found;
  std::vector<std::string> strings;
  {
    const WithoutGil released;
    found.emplace(bundle_.dataset(path));
    if (found->dtype() == DType::string) strings = found->read_strings();
  }
  const ArraySource& source = *found;
  if (source.dtype() == DType::string) {
    py::list texts;
    for (const std::string& value : strings) texts.append(text_of(value));
    return texts;
  }
  if (source.dtype() == DType::other) {
    throw Error(Failure::input,
                source.address() + " holds " + source.type() + ", expected numbers");
  }
  const bool widens = source.dtype() == DType::bf16;
  py::array made = new_array(widens ? DType::f32 : source.dtype(), count);
  void* const numbers = made.mutable_data();
  if (element_count(count) != 0) {
    const WithoutGil released;
    if (widens) {
      source.read(start, count, static_cast<float*>(numbers));
    } else {
      source.read_stored(start, count, numbers);
    }
  }
  return made;
}

void define_file(py::module_& module) {
  const auto shape = [](const std::vector<Index>& lengths) {
    return Shape(lengths.begin(), lengths.end());
  };
  py::class_<FileObject>(module, "File")
      .def(py::init<const std::string&>(), py::call_guard<WithoutGil>())
      .def_property_readonly("root", [](const FileObject& file) { return text_of(file.root()); })
      .def("contents", &FileObject::contents)
      .def("read", [shape](const FileObject& file, const std::string& path,
                           const std::vector<Index>& start, const std::vector<Index>& count) {
        return file.read(path, shape(start), shape(count));
      });
}

}  // namespace attn::python
