#pragma once

#include <cstdint>

#include "tensor/view.hpp"

namespace attn {

/// A matrix whose rows are read as they are needed, so that it need not fit into memory: keys or
/// values in a file.
template <class T>
class RowSource {
 public:
  virtual ~RowSource() = default;

  virtual Index rows() const = 0;
  virtual Index cols() const = 0;

  /// Writes rows [first, first + out.rows) to `out`, which is contiguous. Thread-safe. Throws
  /// Error(input) that names the element for a number that is not finite.
  virtual void read(Index first, MatrixView<T> out) const = 0;

  /// How many bytes the first rows may take in memory.
  virtual std::int64_t kept_bytes() const { return 0; }

 protected:
  RowSource() = default;
  RowSource(const RowSource&) = default;
  RowSource& operator=(const RowSource&) = default;
};

}  // namespace attn
