#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "tensor/array_source.hpp"
#include "tensor/dtype.hpp"
#include "tensor/shape.hpp"

namespace attn::python {

/// An array of a Python object, which lives as long as this: one that has the buffer protocol, as
/// NumPy's, or DLPack, as PyTorch's. Nothing is copied.
struct HeldArray {
  std::shared_ptr<void> owner;  ///< may be dropped without the GIL
  void* numbers = nullptr;
  DType dtype = DType::other;
  Shape shape;
  Shape byte_strides;

  /// The bytes that it may touch: [first, second).
  std::pair<const std::byte*, const std::byte*> range() const;

  /// Its strides in elements, if they are those of a TensorView and the numbers are aligned.
  bool as_view(Shape& strides) const;
};

/// The strides of a dense array whose elements take `step`: bytes, or 1.
Shape dense_strides(const Shape& shape, Index step);

/// Takes the array `object`, which messages call `name`. Requires the GIL. Throws Error(input) for
/// an object that is no array of numbers or bool in the memory of this machine, for negative
/// strides, and with `writes` for an array that says that it is read-only, as DLPack cannot.
HeldArray take_array(const std::string& name, pybind11::handle object, bool writes = false);

/// The array as an input of a tool or plan.
std::shared_ptr<const ArraySource::Impl> as_source(const std::string& name, HeldArray array);

/// A list of strings, or a list of such lists, as the names of tokens; null for anything else.
std::shared_ptr<const ArraySource::Impl> take_strings(const std::string& name,
                                                      pybind11::handle object);

}  // namespace attn::python
