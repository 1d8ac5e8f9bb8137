#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attn::tools {

/// A path that a system call names.
struct TracedPath {
  std::string folder;  ///< what the descriptor before it leads to; "" if there is none before it
  std::string path;    ///< as the call has it
  bool cut = false;    ///< it is not shown to its end
};

/// A system call, as a line of `strace -y -xx` has it.
struct TracedCall {
  enum class Outcome {
    done,
    absent,   ///< ENOENT or ENOTDIR
    exists,   ///< EEXIST
    failed,   ///< for another reason
    unknown,  ///< the process ended, or the call begins again
  };
  std::string name;       ///< "openat"
  std::string arguments;  ///< as the line has them; none of its words occurs in a path
  std::vector<TracedPath> paths;
  std::string descriptor;  ///< what the first argument leads to, if it is a descriptor
  Outcome outcome = Outcome::unknown;
  long value = 0;           ///< what the call returned, if it is done
  std::string opened = {};  ///< what it leads to, if it is a descriptor
};

/// Absent for a line that is none of a system call.
std::optional<TracedCall> traced_call(std::string_view line);

}  // namespace attn::tools
