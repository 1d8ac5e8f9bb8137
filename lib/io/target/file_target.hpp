#pragma once

#include <optional>
#include <string>

#include "io/target/target.hpp"
#include "system/descriptor.hpp"
#include "system/temporary.hpp"

namespace attn::io {

/// A file that appears whole or not at all: it is made in a temporary beside its place, which
/// finish() renames. One process at a time holds the temporary (system/held_temporary.hpp).
class FileTarget : public Target {
 public:
  /// `path` is neither a link nor a folder; `mode` is the mode of the file to be replaced. Without
  /// `replace`, a file that appears there before finish() is kept, and finish() refuses. Throws
  /// Error(output), also while another process is making the same file.
  FileTarget(std::string description, std::string path, std::optional<unsigned> mode, bool replace);

  void with_path(const std::function<void(const std::string&)>& open) override;
  std::string lasting_path() const override { return name_.path(); }
  void finish() override;
  void discard() noexcept override;

 private:
  void make_durable();
  [[noreturn]] void refuse(int error_number) const;

  std::string path_;
  std::string folder_;
  std::optional<unsigned> mode_;
  bool replace_;
  Descriptor descriptor_;
  TemporaryName name_;  // removed before the descriptor gives up the lock
};

/// Throws Error(output): "out.h5 exists", with the hint --force.
[[noreturn]] void refuse_existing(const std::string& description);

/// Throws Error(output): "out.h5 is being written by another process".
[[noreturn]] void refuse_second_writer(const std::string& description);

}  // namespace attn::io
