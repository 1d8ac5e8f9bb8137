#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "io/arrays/array_format.hpp"
#include "io/output.hpp"
#include "tensor/dtype.hpp"
#include "tensor/shape.hpp"

namespace attn::io {

class Target;

/// An array that is to be written.
struct ArrayPlan {
  std::string name;  ///< not used in an .npy
  DType dtype = DType::f32;
  Shape shape;
  Index width = 0;  ///< for strings: characters of the longest, at least 1
};

/// The bytes of one element; a string has four per character (NumPy's U).
std::size_t element_bytes(const ArrayPlan& array);

/// Whether the format can store this type: numbers and bool; bfloat16 only in .safetensors, strings
/// in all others.
bool holds(ArrayFormat format, DType dtype);

/// A file of arrays that appears whole or not at all, as an OutputBundle does. Its bytes depend
/// only on the arrays: an .npy as numpy.save writes it; an .npz with uncompressed members, dated
/// 1980-01-01, whose data begins at multiples of 64 bytes; a .safetensors as the reference
/// implementation writes it. `metadata` is a text that an .npz holds as its last array,
/// `__metadata__` (a string without axes), and a .safetensors as the entry `attnkit` of its
/// `__metadata__`; an .npy has no place for it. Empty: no such array or entry.
class ArrayOutput {
 public:
  /// Throws what OutputBundle's constructor throws, and Error(input) if the format cannot hold the
  /// arrays: a type for which holds() is false, more or fewer than one array in an .npy, two arrays
  /// of one name, a name that is empty or has control characters (or, in an .npz, more than 65531
  /// bytes), or `metadata` that is longer than metadata_limit.
  ArrayOutput(const OutputBundle::Options& options, ArrayFormat format,
              std::vector<ArrayPlan> arrays, std::string metadata = {});

  /// The same for a target that was made before.
  ArrayOutput(std::unique_ptr<Target> target, ArrayFormat format, std::vector<ArrayPlan> arrays,
              std::string metadata = {});
  ~ArrayOutput();
  ArrayOutput(ArrayOutput&&) noexcept;
  ArrayOutput& operator=(ArrayOutput&&) noexcept;

  /// The arrays in the order in which their elements must be written: the given order, except that
  /// a .safetensors is sorted as the reference implementation sorts it.
  const std::vector<ArrayPlan>& order() const;

  /// Writes the next `count` elements of the current array in order(), row-major, size_of(dtype)
  /// bytes each in the machine's byte order. One call may not span two arrays:
  /// std::invalid_argument if `count` exceeds the number of elements that the array still lacks.
  /// Throws Error(output).
  void write(const void* elements, Index count);

  /// Writes all elements of the current array, which holds strings of UTF-8.
  void write_strings(const std::vector<std::string>& values);

  /// Moves the complete file to its target. Throws Error(output), and std::logic_error if elements
  /// are missing.
  void commit();

  std::string description() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The name of the array, or of the header's entry, that holds the metadata.
inline constexpr const char* metadata_name = "__metadata__";
inline constexpr const char* metadata_key = "attnkit";  ///< in a .safetensors, within that entry
constexpr std::size_t metadata_limit = std::size_t{16} << 20;  ///< bytes

/// The version of libzip, "1.7.3", for --version.
std::string libzip_version();

}  // namespace attn::io
