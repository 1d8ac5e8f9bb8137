#include "python/python_host.hpp"

#include <utility>

#include "attnkit/error.hpp"

namespace attn::python {
namespace {

namespace py = pybind11;

bool overlap(const HeldArray& a, const HeldArray& b) {
  const auto first = a.range();
  const auto second = b.range();
  return first.first < second.second && second.first < first.second;
}

std::string type_text(DType type) { return std::string(name(type)); }

}  // namespace

py::array new_array(DType type, const Shape& shape) {
  const std::vector<py::ssize_t> lengths(shape.begin(), shape.end());
  return py::array(py::dtype(type_text(type)), lengths);
}

void require_apart(const std::map<std::string, HeldArray>& inputs,
                   const std::map<std::string, HeldArray>& places) {
  for (auto place = places.begin(); place != places.end(); ++place) {
    const auto refuse = [&](const std::string& other) {
      throw Error(Failure::input, place->first + " overlaps " + other +
                                      ", expected an array of its own for the results");
    };
    for (const auto& [input, array] : inputs) {
      if (overlap(place->second, array)) refuse(input);
    }
    for (auto other = std::next(place); other != places.end(); ++other) {
      if (overlap(place->second, other->second)) refuse(other->first);
    }
  }
}

void require_place(const std::string& name, const HeldArray& place, DType type,
                   const Shape& shape) {
  if (place.dtype != type) {
    throw Error(Failure::input, name + " is of the type " + type_text(place.dtype) + ", expected " +
                                    type_text(type));
  }
  if (!(place.shape == shape)) {
    throw Error(Failure::input, name + " has the shape " + to_string(place.shape) + ", expected " +
                                    to_string(shape));
  }
}

PythonHost::PythonHost(const py::dict& inputs, const py::dict& places, py::object progress)
    : given_(places), progress_(std::move(progress)) {
  std::map<std::string, HeldArray> arrays;
  for (const auto& [key, object] : inputs) {
    const std::string name = py::str(key);
    if (auto strings = name == "tokens" ? take_strings(name, object) : nullptr) {
      inputs_[name] = std::move(strings);
      continue;
    }
    arrays[name] = take_array(name, object);
  }
  for (const auto& [key, object] : places) {
    const std::string name = py::str(key);
    places_[name] = take_array(name, object, true);
  }
  require_apart(arrays, places_);
  for (auto& [name, array] : arrays) inputs_[name] = as_source(name, std::move(array));
}

PythonHost::~PythonHost() {
  const py::gil_scoped_acquire gil;
  given_.release().dec_ref();
  progress_.release().dec_ref();
  results_.release().dec_ref();
  attributes_.release().dec_ref();
}

std::vector<std::string> PythonHost::names() const {
  std::vector<std::string> names;
  for (const auto& input : inputs_) names.push_back(input.first);
  return names;
}

std::shared_ptr<const ArraySource::Impl> PythonHost::input(const std::string& name) const {
  const auto found = inputs_.find(name);
  return found == inputs_.end() ? nullptr : found->second;
}

HostArrays::Place PythonHost::result(const std::string& path, DType type, const Shape& shape) {
  const py::gil_scoped_acquire gil;
  const auto given = places_.find(path);
  if (given == places_.end()) {
    py::array made = new_array(type, shape);
    Place place{made.mutable_data(), {}};
    Index stride = 1;
    place.strides = shape;
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      place.strides[axis] = stride;
      stride *= shape[axis];
    }
    results_[py::str(path)] = std::move(made);
    return place;
  }
  require_place(path, given->second, type, shape);
  Place place{given->second.numbers, {}};
  for (const Index bytes : given->second.byte_strides) {
    place.strides.push_back(bytes / static_cast<Index>(size_of(type)));
  }
  results_[py::str(path)] = given_[py::str(path)];
  return place;
}

void PythonHost::strings(const std::string& path, const std::vector<std::string>& values) {
  const py::gil_scoped_acquire gil;
  py::list texts;
  for (const std::string& value : values) {
    texts.append(py::reinterpret_steal<py::object>(
        PyUnicode_DecodeUTF8(value.data(), static_cast<py::ssize_t>(value.size()), "replace")));
  }
  results_[py::str(path)] = std::move(texts);
}

void PythonHost::attribute(const std::string& group, const std::string& name,
                           const Attribute& value) {
  const py::gil_scoped_acquire gil;
  const std::string path = group.empty() ? name : group + "/" + name;
  attributes_[py::str(path)] = std::visit([](const auto& held) { return py::cast(held); }, value);
}

void PythonHost::progress(double share) {
  if (progress_.is_none() || stop_.load()) return;
  const py::gil_scoped_acquire gil;
  try {
    progress_(share);
  } catch (...) {
    failure_ = std::current_exception();
    stop_.store(true);
  }
}

void PythonHost::rethrow() {
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace attn::python
