#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/output.hpp"
#include "tensor/dtype.hpp"
#include "tensor/shape.hpp"

namespace attn::io {

/// What a file of arrays is to look like.
enum class ArrayFormat { npy, npz, safetensors };

/// An array that is to be written.
struct ArrayPlan {
  std::string name;  ///< not in an .npy
  DType dtype = DType::f32;
  Shape shape;
};

/// Whether the format has arrays of this type: numbers and bool, and bfloat16 in .safetensors
/// alone.
bool holds(ArrayFormat format, DType dtype);

/// A file of arrays that appears whole or not at all, as an OutputBundle does, with bytes that
/// depend on the arrays alone: an .npy as numpy.save writes it; an .npz of members that are stored,
/// dated 1980-01-01 and aligned so that their data begins at a multiple of 64; a .safetensors as
/// the reference implementation writes it.
class ArrayOutput {
 public:
  /// Throws what OutputBundle's constructor throws, and Error(input) for arrays that the format
  /// cannot hold: of other types than holds(), more or fewer than one in an .npy, two of one name,
  /// names without characters or with control characters (in an .npz, of more than 65531 bytes).
  ArrayOutput(const OutputBundle::Options& options, ArrayFormat format,
              std::vector<ArrayPlan> arrays);
  ~ArrayOutput();
  ArrayOutput(ArrayOutput&&) noexcept;
  ArrayOutput& operator=(ArrayOutput&&) noexcept;

  /// The arrays in the order in which their elements are to be written: as given, but in a
  /// .safetensors sorted as the reference implementation has them.
  const std::vector<ArrayPlan>& order() const;

  /// Takes the next `count` elements of the array whose turn it is, row-major, size_of(dtype) bytes
  /// each in the machine's byte order. Elements of two arrays are not mixed in one call: more than
  /// the array has left is std::invalid_argument. Throws Error(output).
  void write(const void* elements, Index count);

  /// Everything is written: brings the file to its target. Throws Error(output), and
  /// std::logic_error where elements are missing.
  void commit();

  std::string description() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// "1.7.3": for --version.
std::string libzip_version();

}  // namespace attn::io
