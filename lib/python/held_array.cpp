#include "python/held_array.hpp"

#include <dlpack/dlpack.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "attnkit/error.hpp"
#include "python/gil.hpp"

namespace attn::python {
namespace {

namespace py = pybind11;

[[noreturn]] void refuse(const std::string& message, const std::string& hint = {}) {
  throw Error(Failure::input, message, hint);
}

std::string type_name(py::handle object) { return Py_TYPE(object.ptr())->tp_name; }

// Drops the last reference with the GIL, from any thread; not at all once Python has ended.
std::shared_ptr<void> holder(std::shared_ptr<void> held) {
  auto* const kept = new std::shared_ptr<void>(std::move(held));
  return {kept->get(), [kept](void*) {
            if (!Py_IsInitialized()) return;
            const WithGil gil;
            delete kept;
          }};
}

// The type of the struct module's format "<f"; `other` if it is not a number that tools read.
DType dtype_of_format(const char* format, std::size_t bytes) {
  if (format == nullptr) return DType::u8;
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (format[0] == '\0' || format[1] != '\0') return DType::other;
  const auto sized = [&](DType one, DType two, DType four, DType eight) {
    return bytes == 1 ? one : bytes == 2 ? two : bytes == 4 ? four : eight;
  };
  switch (*format) {
    case '?':
      return DType::boolean;
    case 'e':
      return DType::f16;
    case 'f':
      return DType::f32;
    case 'd':
      return DType::f64;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
    case 'n':
      return sized(DType::i8, DType::i16, DType::i32, DType::i64);
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
    case 'N':
      return sized(DType::u8, DType::u16, DType::u32, DType::u64);
    default:
      return DType::other;
  }
}

void require_strides(const std::string& name, const HeldArray& array) {
  for (std::size_t axis = 0; axis < array.shape.size(); ++axis) {
    if (array.shape[axis] > 1 && array.byte_strides[axis] < 0) {
      refuse(name + " has negative strides, expected strides of 0 or more",
             "numpy.ascontiguousarray(" + name + ") copies it");
    }
  }
}

HeldArray of_buffer(const std::string& name, py::handle object, bool writes) {
  auto* const buffer = new Py_buffer;
  std::shared_ptr<void> owner(buffer, [](void* held) {
    auto* const view = static_cast<Py_buffer*>(held);
    if (view->obj != nullptr) PyBuffer_Release(view);
    delete view;
  });
  buffer->obj = nullptr;
  if (PyObject_GetBuffer(object.ptr(), buffer, writes ? PyBUF_FULL : PyBUF_FULL_RO) != 0) {
    PyErr_Clear();
    buffer->obj = nullptr;
    if (writes && PyObject_GetBuffer(object.ptr(), buffer, PyBUF_FULL_RO) == 0) {
      refuse(name + " is read-only, expected an array for results");
    }
    PyErr_Clear();
    buffer->obj = nullptr;
    refuse(name + " is a " + type_name(object) + ", expected an array of numbers");
  }
  HeldArray array;
  array.numbers = buffer->buf;
  array.dtype = dtype_of_format(buffer->format, static_cast<std::size_t>(buffer->itemsize));
  if (array.dtype == DType::other) {
    const std::string format = buffer->format;
    const std::string type = py::hasattr(object, "dtype")
                                 ? std::string(py::str(object.attr("dtype")))
                                 : "'" + format + "'";
    refuse(
        name + (format == "O" ? " is an array of objects, expected numbers"
                              : " has elements of the type " + type + ", expected numbers"),
        format[0] == '>' ? name + ".astype(" + name + ".dtype.newbyteorder('=')) converts it" : "");
  }
  for (int axis = 0; axis < buffer->ndim; ++axis) {
    if (buffer->suboffsets != nullptr && buffer->suboffsets[axis] >= 0) {
      refuse(name + " is an array of pointers, expected one block of memory");
    }
    array.shape.push_back(buffer->shape[axis]);
    if (buffer->strides != nullptr) array.byte_strides.push_back(buffer->strides[axis]);
  }
  if (buffer->strides == nullptr) array.byte_strides = dense_strides(array.shape, buffer->itemsize);
  array.owner = holder(std::move(owner));
  return array;
}

DType dtype_of_dlpack(const DLDataType& type) {
  if (type.lanes != 1) return DType::other;
  constexpr std::uint8_t boolean_code = 6;  // of DLPack 0.8
  const bool whole = type.bits == 8 || type.bits == 16 || type.bits == 32 || type.bits == 64;
  switch (type.code) {
    case kDLFloat:
      return type.bits == 16   ? DType::f16
             : type.bits == 32 ? DType::f32
             : type.bits == 64 ? DType::f64
                               : DType::other;
    case kDLBfloat:
      return type.bits == 16 ? DType::bf16 : DType::other;
    case boolean_code:
      return type.bits == 8 ? DType::boolean : DType::other;
    case kDLInt:
    case kDLUInt: {
      if (!whole) return DType::other;
      const char format[2] = {type.code == kDLInt ? 'q' : 'Q', '\0'};
      return dtype_of_format(format, type.bits / 8);
    }
    default:
      return DType::other;
  }
}

void require_here(const std::string& name, py::handle object) {
  if (!py::hasattr(object, "__dlpack_device__")) return;
  try {
    const auto device = object.attr("__dlpack_device__")().cast<std::pair<int, int>>();
    if (device.first == kDLCPU || device.first == kDLCUDAHost) return;
  } catch (py::error_already_set&) {  // of a device that DLPack does not know
  } catch (py::cast_error&) {
  }
  std::string where = "another device";
  if (py::hasattr(object, "device")) where = py::str(object.attr("device"));
  refuse(name + " is on " + where + ", expected the memory of the CPU", name + ".cpu() copies it");
}

HeldArray of_dlpack(const std::string& name, py::handle object) {
  require_here(name, object);
  if (py::hasattr(object, "is_neg") && py::bool_(object.attr("is_neg")())) {
    refuse(name + " is negated when it is read", name + ".resolve_neg()");
  }
  py::object capsule;
  try {
    capsule = object.attr("__dlpack__")();
  } catch (py::error_already_set& error) {
    const bool learns =
        py::hasattr(object, "requires_grad") && py::bool_(object.attr("requires_grad"));
    refuse(name + " cannot be taken as it is: " + std::string(py::str(error.value())),
           learns ? name + ".detach()" : "");
  }
  auto* const managed =
      static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  if (managed == nullptr) {
    PyErr_Clear();
    refuse(name + " gives no DLPack capsule");
  }
  PyCapsule_SetName(capsule.ptr(), "used_dltensor");
  std::shared_ptr<void> owner(managed, [](void* held) {
    auto* const tensor = static_cast<DLManagedTensor*>(held);
    if (tensor->deleter != nullptr) tensor->deleter(tensor);
  });
  const DLTensor& tensor = managed->dl_tensor;
  HeldArray array;
  array.dtype = dtype_of_dlpack(tensor.dtype);
  if (array.dtype == DType::other) refuse(name + " has elements of a type that is not read");
  array.numbers = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  const auto bytes = static_cast<Index>(size_of(array.dtype));
  for (int axis = 0; axis < tensor.ndim; ++axis) {
    array.shape.push_back(tensor.shape[axis]);
    if (tensor.strides != nullptr) array.byte_strides.push_back(tensor.strides[axis] * bytes);
  }
  if (tensor.strides == nullptr) array.byte_strides = dense_strides(array.shape, bytes);
  array.owner = holder(std::move(owner));
  return array;
}

class HeldSource final : public ArraySource::Impl {
 public:
  HeldSource(const std::string& operand, HeldArray array) : array_(std::move(array)) {
    name = address = operand;
    shape = array_.shape;
    dtype = array_.dtype;
    description = attn::name(dtype);
    in_place_ = array_.as_view(strides_);
    dense_ = in_place_ && is_dense(shape, strides_);
  }

  const void* in_memory() const override { return in_place_ ? array_.numbers : nullptr; }
  const Shape* strides() const override { return dense_ ? nullptr : &strides_; }

  void read_stored(const Shape& start, const Shape& count, void* out) const override {
    const std::size_t size = size_of(dtype);
    const Index row = count.empty() ? 1 : count.back();
    const Index rows = row == 0 ? 0 : element_count(count) / row;
    const Shape outer = leading_axes(count, count.empty() ? 0 : 1);
    const Index step = count.empty() ? 0 : array_.byte_strides.back();
    auto* to = static_cast<std::byte*>(out);
    for (Index n = 0; n < rows; ++n) {
      const Shape at = unravel(n, outer);
      Index first = count.empty() ? 0 : start.back() * step;
      for (std::size_t axis = 0; axis < at.size(); ++axis) {
        first += (start[axis] + at[axis]) * array_.byte_strides[axis];
      }
      const std::byte* from = static_cast<const std::byte*>(array_.numbers) + first;
      if (step == static_cast<Index>(size)) {
        std::memcpy(to, from, static_cast<std::size_t>(row) * size);
        to += static_cast<std::size_t>(row) * size;
        continue;
      }
      for (Index element = 0; element < row; ++element, from += step, to += size) {
        std::memcpy(to, from, size);
      }
    }
  }

 private:
  HeldArray array_;
  Shape strides_;
  bool in_place_ = false;
  bool dense_ = false;
};

// Adds the strings of a list, or of lists in it, which are all as long. Returns false for others.
bool add_strings(py::handle list, std::size_t depth, std::vector<std::string>& values,
                 Shape& shape) {
  if (!py::isinstance<py::list>(list) && !py::isinstance<py::tuple>(list)) return false;
  const auto length = static_cast<Index>(py::len(list));
  if (shape.size() == depth) shape.push_back(length);
  if (shape[depth] != length) return false;
  for (const auto& item : list) {
    if (py::isinstance<py::str>(item)) {
      if (shape.size() != depth + 1) return false;
      values.push_back(item.cast<std::string>());
    } else if (!add_strings(item, depth + 1, values, shape)) {
      return false;
    }
  }
  return true;
}

class HeldStrings final : public ArraySource::Impl {
 public:
  HeldStrings(const std::string& operand, std::vector<std::string> values, const Shape& lengths)
      : values_(std::move(values)) {
    name = address = operand;
    shape = lengths;
    dtype = DType::string;
    description = "string";
  }

  void read_stored(const Shape& /*start*/, const Shape& /*count*/, void* /*out*/) const override {
    throw Error(Failure::input, name + " holds strings, expected numbers");
  }
  std::vector<std::string> read_strings() const override { return values_; }

 private:
  std::vector<std::string> values_;
};

}  // namespace

std::pair<const std::byte*, const std::byte*> HeldArray::range() const {
  const auto* const first = static_cast<const std::byte*>(numbers);
  Index last = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == 0) return {first, first};
    last += (shape[axis] - 1) * byte_strides[axis];
  }
  return {first, first + last + size_of(dtype)};
}

bool HeldArray::as_view(Shape& strides) const {
  const std::size_t size = size_of(dtype);
  if (reinterpret_cast<std::uintptr_t>(numbers) % size != 0) return false;
  strides = {};
  for (const Index bytes : byte_strides) {
    if (bytes % static_cast<Index>(size) != 0) return false;
    strides.push_back(bytes / static_cast<Index>(size));
  }
  if (is_dense(shape, strides)) {
    strides = {};
    return true;
  }
  try {
    attn::require_strides("", shape, strides);
  } catch (const Error&) {
    return false;
  }
  return true;
}

Shape dense_strides(const Shape& shape, Index step) {
  Shape strides = shape;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = step;
    step *= shape[axis];
  }
  return strides;
}

HeldArray take_array(const std::string& name, py::handle object, bool writes) {
  HeldArray array;
  if (type_name(object).find("MaskedArray") != std::string::npos) {
    refuse(name + " is a masked array, whose mask would be lost",
           name + ".filled(), and mask= for attention");
  }
  if (PyObject_CheckBuffer(object.ptr()) != 0 && !PyBytes_Check(object.ptr()) &&
      !PyByteArray_Check(object.ptr())) {
    array = of_buffer(name, object, writes);
  } else if (py::hasattr(object, "__dlpack__")) {
    array = of_dlpack(name, object);
  } else {
    refuse(name + " is a " + type_name(object) + ", expected an array",
           py::isinstance<py::list>(object) || py::isinstance<py::tuple>(object) ||
                   PyNumber_Check(object.ptr()) != 0
               ? "numpy.asarray(" + name + ") makes one"
               : "");
  }
  require_strides(name, array);
  return array;
}

std::shared_ptr<const ArraySource::Impl> as_source(const std::string& name, HeldArray array) {
  return std::make_shared<HeldSource>(name, std::move(array));
}

std::shared_ptr<const ArraySource::Impl> take_strings(const std::string& name, py::handle object) {
  std::vector<std::string> values;
  Shape shape;
  return add_strings(object, 0, values, shape)
             ? std::make_shared<HeldStrings>(name, std::move(values), shape)
             : nullptr;
}

}  // namespace attn::python
