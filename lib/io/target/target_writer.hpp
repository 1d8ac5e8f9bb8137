#pragma once

#include <memory>
#include <string>

#include "io/target/target.hpp"
#include "system/descriptor.hpp"

namespace attn::io {

/// Plain bytes written to a target. After an Error(output), or without finish(), nothing is left
/// behind.
class TargetWriter {
 public:
  explicit TargetWriter(std::unique_ptr<Target> target);
  ~TargetWriter();
  TargetWriter(const TargetWriter&) = delete;
  TargetWriter& operator=(const TargetWriter&) = delete;

  /// Appends. Throws Error(output).
  void append(const void* data, Index count);
  void append(const std::string& data) { append(data.data(), static_cast<Index>(data.size())); }

  /// Replaces bytes that were appended before.
  void replace(Index offset, const std::string& data);

  Index size() const noexcept { return size_; }
  const std::string& description() const noexcept { return target_->description(); }
  void finish();

 private:
  void write_at(Index offset, const char* data, Index count);

  std::unique_ptr<Target> target_;
  Descriptor descriptor_;
  Index size_ = 0;
  bool done_ = false;
};

}  // namespace attn::io
