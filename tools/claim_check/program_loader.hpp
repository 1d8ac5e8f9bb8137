#pragma once

#include <optional>
#include <string>

namespace attn::tools {

/// The file that the kernel reads to start a program, besides the program itself: the interpreter
/// behind "#!" of a script, or the loader of an executable; "" if there is none. No system call
/// names this file. Absent if the program is neither, cannot be read, is for another processor, or
/// does not name the file by its absolute path.
std::optional<std::string> loader_of(const std::string& program);

}  // namespace attn::tools
