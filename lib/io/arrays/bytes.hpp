#pragma once

#include <memory>
#include <string>

#include "system/descriptor.hpp"
#include "tensor/shape.hpp"

namespace attn::io {

/// Bytes that can be read from anywhere: those of a file, or of a member of an archive.
class Bytes {
 public:
  virtual ~Bytes() = default;
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;

  Index size() const noexcept { return size_; }

  /// Fills `out` with bytes [offset, offset + count), which lie within size(). From any thread.
  /// Throws Error(input) naming the file where they cannot be had.
  virtual void read(Index offset, Index count, void* out) const = 0;

 protected:
  explicit Bytes(Index size) : size_(size) {}

 private:
  Index size_;
};

/// A regular file. By pread(2) and not by a mapping: reading a mapped file that another program
/// cuts short ends the process.
class FileBytes : public Bytes {
 public:
  /// `label` is what messages call the file, `size` its length when it was opened.
  FileBytes(Descriptor descriptor, std::string label, Index size)
      : Bytes(size), descriptor_(std::move(descriptor)), label_(std::move(label)) {}

  void read(Index offset, Index count, void* out) const override;

 private:
  Descriptor descriptor_;
  std::string label_;
};

}  // namespace attn::io
