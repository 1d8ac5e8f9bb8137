#pragma once

#include <optional>
#include <string>

namespace attn::tools {

/// The file that the kernel reads besides a program in order to start it, which no system call
/// names: the interpreter behind "#!" of a script, or the loader of an executable; "" if there is
/// none. Absent if the program is neither, cannot be read, is for another processor, or does not
/// name the file by its absolute path.
std::optional<std::string> loader_of(const std::string& program);

}  // namespace attn::tools
