#pragma once

#include <string>

#include "io/target/target.hpp"
#include "system/unnamed_file.hpp"

namespace attn::io {

/// A stream, to which the bundle's bytes are copied when it is complete. Until then it is made in
/// an unnamed temporary, which leaves nothing behind even if the stream's reader exits.
class StreamTarget : public Target {
 public:
  /// Standard output. Throws Error(usage) for a terminal.
  explicit StreamTarget(const std::string& tmpdir);

  /// A path that leads to something other than a regular file. A FIFO is opened only at the end,
  /// since opening it waits for its reader; anything else is opened now.
  StreamTarget(const std::string& path, bool is_fifo, const std::string& tmpdir);

  void with_path(const std::function<void(const std::string&)>& open) override;
  std::string lasting_path() const override { return {}; }
  void finish() override;
  void discard() noexcept override;

 private:
  void require_no_terminal(int descriptor) const;
  void flow_into(int descriptor);
  [[noreturn]] void refuse(int error_number) const;

  std::string path_;  ///< empty: standard output
  Descriptor opened_;
  UnnamedFile temporary_;
};

}  // namespace attn::io
