#pragma once

#include <functional>
#include <string>

namespace attn::cli {

/// Writes `text` to `destination`, the value of --`option`: whole or not at all where that is a
/// regular file or nothing yet, as a stream where it is anything else; "" is standard output.
/// `before_end`, where given, is called when all that a full disk could refuse is done: before a
/// stream is begun, and just after a file has taken its name. Where it throws, or a signal ends the
/// process before it calls keep_replacement() (system/replacement.hpp) or returns, what was there
/// before is there again. Throws Error(output), and what `before_end` throws.
void write_text(const std::string& text, const std::string& destination, const std::string& option,
                const std::function<void()>& before_end = {});

/// Checks before a run that the destination can be written after it. Throws Error(output).
void check_text_destination(const std::string& destination, const std::string& option);

}  // namespace attn::cli
