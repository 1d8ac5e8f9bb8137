#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attn::tools {

/// A path that a system call names.
struct TracedPath {
  std::string folder;  ///< path of the descriptor argument before it; "" without one
  std::string path;    ///< as in the call
  bool cut = false;    ///< it is not shown to its end
};

/// A system call, from a line of `strace -y -xx`.
struct TracedCall {
  enum class Outcome {
    done,
    absent,   ///< ENOENT or ENOTDIR
    exists,   ///< EEXIST
    failed,   ///< for another reason
    unknown,  ///< the process ended, or the call restarts
  };
  std::string name;       ///< "openat"
  std::string arguments;  ///< as in the line; its words never occur in a path
  std::vector<TracedPath> paths;
  std::string descriptor;  ///< path of the first argument, if it is a descriptor
  Outcome outcome = Outcome::unknown;
  long value = 0;           ///< the return value, if the call is done
  std::string opened = {};  ///< path of the return value, if it is a descriptor
};

/// Absent for a line that is not a system call.
std::optional<TracedCall> traced_call(std::string_view line);

}  // namespace attn::tools
