#include "python/python_host.hpp"

#include <algorithm>
#include <new>
#include <type_traits>
#include <utility>

#include "attnkit/error.hpp"
#include "python/gil.hpp"

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
  try {
    return py::array(py::dtype(type_text(type)), lengths);
  } catch (const py::error_already_set& error) {
    if (error.matches(PyExc_MemoryError)) throw std::bad_alloc();
    throw;
  }
}

py::str text_of(const std::string& text) {
  return py::reinterpret_steal<py::str>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<py::ssize_t>(text.size()), "replace"));
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
  const auto size = static_cast<Index>(size_of(type));
  std::vector<std::pair<Index, Index>> axes;  // byte stride and length
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == 0) return;
    if (shape[axis] > 1) axes.emplace_back(place.byte_strides[axis], shape[axis]);
  }
  std::sort(axes.begin(), axes.end());
  Index past = size;
  bool apart = reinterpret_cast<std::uintptr_t>(place.numbers) % size_of(type) == 0;
  for (const auto& [stride, length] : axes) {
    apart = apart && stride % size == 0 && stride >= past;
    past = stride * length;
  }
  if (apart) return;
  throw Error(Failure::input, name + " has the strides " + to_string(place.byte_strides) +
                                  " in bytes, expected an aligned place for each element");
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
  const WithGil gil;
  given_.release().dec_ref();
  progress_.release().dec_ref();
  results_.release().dec_ref();
  attributes_.release().dec_ref();
}

std::shared_ptr<const ArraySource::Impl> PythonHost::input(const std::string& name) const {
  const auto found = inputs_.find(name);
  return found == inputs_.end() ? nullptr : found->second;
}

HostArrays::Place PythonHost::result(const std::string& path, DType type, const Shape& shape) {
  const WithGil gil;
  const auto given = places_.find(path);
  if (given == places_.end()) {
    py::array made = new_array(type, shape);
    const Place place{made.mutable_data(), dense_strides(shape, 1)};
    results_[text_of(path)] = std::move(made);
    return place;
  }
  require_place(path, given->second, type, shape);
  Place place{given->second.numbers, {}};
  for (const Index bytes : given->second.byte_strides) {
    place.strides.push_back(bytes / static_cast<Index>(size_of(type)));
  }
  results_[text_of(path)] = given_[text_of(path)];
  return place;
}

void PythonHost::strings(const std::string& path, const std::vector<std::string>& values) {
  const WithGil gil;
  py::list texts;
  for (const std::string& value : values) texts.append(text_of(value));
  results_[text_of(path)] = std::move(texts);
}

void PythonHost::attribute(const std::string& group, const std::string& name,
                           const Attribute& value) {
  const WithGil gil;
  const std::string path = group.empty() ? name : group + "/" + name;
  attributes_[text_of(path)] = std::visit(
      [](const auto& held) -> py::object {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::string>) {
          return text_of(held);
        } else {
          return py::cast(held);
        }
      },
      value);
}

void PythonHost::progress(double share) {
  if (progress_.is_none() || stop_.load()) return;
  const WithGil gil;
  last_share_ = share;
  try {
    progress_(share);
  } catch (...) {
    failure_ = std::current_exception();
    stop_.store(true);
  }
}

void PythonHost::finish_progress() {
  if (last_share_ < 1) progress(1);
}

void PythonHost::rethrow() {
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace attn::python
