#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <string>

#include "io/input.hpp"

namespace attn::python {

/// A bundle that Python reads: HDF5, .npz or .safetensors. Nothing is read before it is asked for.
class FileObject {
 public:
  /// `address` is FILE or FILE:/group. Throws the errors of io::InputBundle.
  explicit FileObject(const std::string& address);

  /// The address of the root: "FILE:" or "FILE:/group".
  std::string root() const { return root_; }

  /// A list of (path, is_group, dtype, shape, attributes) for all below the root, as io::contents
  /// has them; the first is the root itself, "".
  pybind11::list contents() const;

  /// The block of a dataset at `start` with `count` elements along each axis, as a NumPy array;
  /// bfloat16 numbers as float32. Strings are read whole, as a list.
  pybind11::object read(const std::string& path, const Shape& start, const Shape& count) const;

 private:
  std::string root_;
  io::InputBundle bundle_;
};

/// Makes the class File of the module.
void define_file(pybind11::module_& module);

}  // namespace attn::python
