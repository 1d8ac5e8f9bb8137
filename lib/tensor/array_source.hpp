#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tensor/dtype.hpp"
#include "tensor/shape.hpp"

namespace attn {

/// An array whose numbers are read on request, whole or in blocks: a dataset of a file, or what a
/// class derived from Impl yields. Cheap to copy. Reads may come from any thread.
class ArraySource {
 public:
  struct Impl;
  explicit ArraySource(std::shared_ptr<const Impl> impl);

  const std::string& name() const;     ///< its name in the tool: "q"
  const std::string& address() const;  ///< for messages: "k.h5:/layer3/Q", "standard input:/q"
  const Shape& shape() const;          ///< after slicing
  DType dtype() const;
  std::string type() const;  ///< for messages: "float32", or as the format has it: "F8_E4M3"

  /// Reads the block that starts at `start` and has `count` elements along each axis, row-major,
  /// converted to the type of `out`: float and double take floating and integral arrays (float16
  /// and bfloat16 are widened exactly; float64 read as float is rounded to nearest and may become
  /// infinite, which callers refuse); uint8_t takes integral ones as non-zero = 1; int64_t takes
  /// integral ones. Throws Error(input) naming the array, its type and the expected type for other
  /// types, and for a uint64 that does not fit. Uses 1 MiB of memory besides `out`, and HDF5 its
  /// cache of chunks. A block outside shape() is a bug: std::invalid_argument.
  void read(const Shape& start, const Shape& count, float* out) const;
  void read(const Shape& start, const Shape& count, double* out) const;
  void read(const Shape& start, const Shape& count, std::uint8_t* out) const;
  void read(const Shape& start, const Shape& count, std::int64_t* out) const;

  /// The same without any conversion: size_of(dtype()) bytes per element, in the machine's byte
  /// order, bool as bytes of 0 and 1. Throws Error(input) unless the dataset holds numbers or bool.
  void read_stored(const Shape& start, const Shape& count, void* out) const;

  /// The least memory that any read takes besides `out`: a compressed chunk of an HDF5 dataset is
  /// decompressed as a whole, however large it is. 0 if nothing is compressed.
  std::int64_t bytes_at_once() const;

  /// All elements of a string dataset (fixed or variable length, UTF-8 or ASCII).
  std::vector<std::string> read_strings() const;

  /// The numbers themselves, if they lie in memory as an array of T; else null.
  template <class T>
  const T* in_memory() const;

  /// The strides of the numbers in memory, as in TensorView; null for a dense array.
  const Shape* strides() const;

  /// Whether both are copies of one source.
  bool same_as(const ArraySource& other) const { return impl_ == other.impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

/// One kind of storage. A new one needs a derived class; conversion, checks and messages are
/// shared.
struct ArraySource::Impl {
  std::string name;  ///< see ArraySource, as all members
  std::string address;
  Shape shape;
  DType dtype = DType::other;
  std::string description;  ///< of the type, for messages: "float32", "a compound type"

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  virtual ~Impl() = default;

  /// Fills `out` with a block's elements as stored, row-major: size_of(dtype) bytes each, in the
  /// machine's byte order; bool as one byte. Called with non-empty blocks inside `shape`, from any
  /// thread, for numbers and bool only.
  virtual void read_stored(const Shape& start, const Shape& count, void* out) const = 0;

  virtual std::int64_t bytes_at_once() const { return 0; }

  /// See ArraySource.
  virtual const void* in_memory() const { return nullptr; }
  virtual const Shape* strides() const { return nullptr; }

  /// Called only if dtype is string.
  virtual std::vector<std::string> read_strings() const { return {}; }
};

template <class T>
const T* ArraySource::in_memory() const {
  return impl_->dtype == dtype_of<T>() ? static_cast<const T*>(impl_->in_memory()) : nullptr;
}

/// ArraySource::read of an Impl.
void read_floats(const ArraySource::Impl& source, const Shape& start, const Shape& count,
                 float* out);

}  // namespace attn
