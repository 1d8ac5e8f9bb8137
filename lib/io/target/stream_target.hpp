#pragma once

#include <string>

#include "io/target/target.hpp"
#include "system/unnamed_file.hpp"

namespace attn::io {

/// A stream, to which the bundle's bytes flow when it is complete; until then it is made in an
/// unnamed temporary, of which nothing is left even when the stream's reader goes away.
class StreamTarget : public Target {
 public:
  /// Standard output. Throws Error(usage) for a terminal.
  explicit StreamTarget(const std::string& tmpdir);

  /// A path that leads to something other than a regular file. A FIFO is opened in the end only,
  /// since that waits for its reader; anything else now.
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
