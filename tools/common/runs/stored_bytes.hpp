#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "io/input.hpp"

namespace attn::tools {

/// Bytes in a dataset of a file, read from the first to the last.
class StoredBytes {
 public:
  /// Throws Error(input), which calls the bytes `what`, unless the dataset is a list of bytes.
  StoredBytes(ArraySource dataset, const std::string& file, const std::string& what);

  std::int64_t size() const { return size_; }
  /// The number of bytes not read yet.
  std::int64_t left() const;

  /// Reads the next bytes. Throws Error(input) if there are fewer.
  void read(void* bytes, std::size_t count);
  void skip(std::size_t count);

  /// Calls use(bytes) for all bytes in order, in pieces, regardless of earlier reads.
  void for_pieces(const std::function<void(std::span<char> bytes)>& use) const;

 private:
  void require(std::size_t count) const;

  ArraySource dataset_;
  std::int64_t size_;
  std::int64_t position_ = 0;  // in the file
  std::vector<char> ahead_;    // bytes before `position_`, some already taken
  std::size_t taken_ = 0;
};

}  // namespace attn::tools
