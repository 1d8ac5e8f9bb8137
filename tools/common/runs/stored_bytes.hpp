#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "io/input.hpp"

namespace attn::tools {

/// Bytes that lie in a file as a dataset, read from the first to the last.
class StoredBytes {
 public:
  /// Throws Error(input) unless the dataset is a list of bytes; `what` they are stands in the
  /// message.
  StoredBytes(ArraySource dataset, const std::string& file, const std::string& what);

  std::int64_t size() const { return size_; }
  /// How many were not read yet.
  std::int64_t left() const;

  /// The next ones. Throws Error(input) if there are fewer.
  void read(void* bytes, std::size_t count);
  void skip(std::size_t count);

  /// Calls use(bytes) for all, in pieces in their order, whatever was read.
  void for_pieces(const std::function<void(std::span<char> bytes)>& use) const;

 private:
  void require(std::size_t count) const;

  ArraySource dataset_;
  std::int64_t size_;
  std::int64_t position_ = 0;  // in the file
  std::vector<char> ahead_;    // bytes before `position_`, of which some were taken
  std::size_t taken_ = 0;
};

}  // namespace attn::tools
