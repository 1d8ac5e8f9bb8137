#pragma once

#include <functional>
#include <memory>
#include <string>

#include "io/output.hpp"

namespace attn::io {

/// The destination of a finished bundle, and the temporary in which it is made.
class Target {
 public:
  virtual ~Target() = default;
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  /// "out.h5" or "standard output": for messages.
  const std::string& description() const noexcept { return description_; }

  /// Calls `open` with the temporary's path, which may be valid only until `open` returns.
  virtual void with_path(const std::function<void(const std::string&)>& open) = 0;

  /// The temporary's path if it keeps one until the end; else empty.
  virtual std::string lasting_path() const = 0;

  /// Moves the complete content to its destination. Throws Error(output). Nothing is left of the
  /// temporary in either case.
  virtual void finish() = 0;

  /// Removes the temporary and frees its space, even while HDF5 still has it open.
  virtual void discard() noexcept = 0;

 protected:
  explicit Target(std::string description) : description_(std::move(description)) {}

 private:
  std::string description_;
};

/// Checks the existing target and refuses it where OutputBundle's constructor promises to. A path
/// that leads to something other than a regular file is a stream; symbolic links are followed.
std::unique_ptr<Target> make_target(const OutputBundle::Options& options);

/// A temporary from which the target is made: in the target's folder, where there must be room for
/// the result anyway, or in tmpdir if the target is a stream.
std::unique_ptr<Target> make_scratch(const OutputBundle::Options& options,
                                     const std::string& description);

}  // namespace attn::io
