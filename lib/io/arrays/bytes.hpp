#pragma once

#include <memory>
#include <string>

#include "system/descriptor.hpp"
#include "tensor/shape.hpp"

namespace attn::io {

/// A random-access source of bytes: a file, or a member of an archive.
class Bytes {
 public:
  virtual ~Bytes() = default;
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;

  Index size() const noexcept { return size_; }

  /// Fills `out` with bytes [offset, offset + count), which lie within size(). May be called from
  /// any thread. Throws Error(input) naming the file if they cannot be read.
  virtual void read(Index offset, Index count, void* out) const = 0;

 protected:
  explicit Bytes(Index size) : size_(size) {}

 private:
  Index size_;
};

/// A regular file. It is read by pread(2) rather than mapped: a process that reads a mapped file
/// after another program has truncated it is killed.
class FileBytes : public Bytes {
 public:
  /// `label` names the file in messages; `size` is its length when it was opened.
  FileBytes(Descriptor descriptor, std::string label, Index size)
      : Bytes(size), descriptor_(std::move(descriptor)), label_(std::move(label)) {}

  void read(Index offset, Index count, void* out) const override;

 private:
  Descriptor descriptor_;
  std::string label_;
};

}  // namespace attn::io
