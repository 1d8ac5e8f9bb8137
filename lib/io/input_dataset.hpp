#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/input.hpp"

namespace attn::io {

/// What stands behind an InputDataset: elements as some kind of file stores them. Another format
/// is another derived class; conversion, checks and messages are common.
struct InputDataset::Impl {
  std::string name;     ///< as tools know it
  std::string address;  ///< for messages
  Shape shape;          ///< after slicing
  DType dtype = DType::other;
  std::string description;  ///< of the type, for messages: "float32", "a compound type"

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  virtual ~Impl() = default;

  /// Fills `out` with a block's elements as stored, row-major: size_of(dtype) bytes each, in the
  /// machine's byte order; bool as one byte. Called with blocks inside of `shape` that are not
  /// empty, from any thread, and with numbers and bool only.
  virtual void read_stored(const Shape& start, const Shape& count, void* out) const = 0;

  /// See InputDataset::bytes_at_once.
  virtual std::int64_t bytes_at_once() const { return 0; }

  /// Called where dtype is string only.
  virtual std::vector<std::string> read_strings() const = 0;
};

/// InputDataset::read, for where there is only what stands behind it.
void read_floats(const InputDataset::Impl& source, const Shape& start, const Shape& count,
                 float* out);

}  // namespace attn::io
