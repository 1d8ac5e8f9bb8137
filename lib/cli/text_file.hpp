#pragma once

#include <functional>
#include <string>

namespace attn::cli {

/// Writes `text` to `destination`, the value of --`option`. A regular or new file appears whole or
/// not at all; anything else is written as a stream; "" is standard output. `before_end` is called
/// when a full disk can no longer make this fail: before a stream is begun, and just after a file
/// has taken its name. If it throws, or if a signal ends the process before it calls
/// keep_replacement() (system/replacement.hpp) or returns, the old file is restored. Throws
/// Error(output) and the exceptions of `before_end`.
void write_text(const std::string& text, const std::string& destination, const std::string& option,
                const std::function<void()>& before_end = {});

/// Writes `text` to the new file `file`, the value of --`option`, which appears whole or not at
/// all. If something has that name already, even if another process has just made it, returns
/// false and changes nothing. Throws Error(output).
bool write_new_text(const std::string& text, const std::string& file, const std::string& option);

/// Checks before a run that the destination can be written after it. Throws Error(output).
void check_text_destination(const std::string& destination, const std::string& option);

}  // namespace attn::cli
