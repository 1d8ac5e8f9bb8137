#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/input.hpp"

namespace attn::io {

/// The implementation of InputDataset for one kind of storage. A new format needs a new derived
/// class; conversion, checks and messages are shared.
struct InputDataset::Impl {
  std::string name;     ///< its name in the tool
  std::string address;  ///< for messages
  Shape shape;          ///< after slicing
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

  /// See InputDataset::bytes_at_once.
  virtual std::int64_t bytes_at_once() const { return 0; }

  /// Called only if dtype is string.
  virtual std::vector<std::string> read_strings() const = 0;
};

/// InputDataset::read for an Impl.
void read_floats(const InputDataset::Impl& source, const Shape& start, const Shape& count,
                 float* out);

}  // namespace attn::io
