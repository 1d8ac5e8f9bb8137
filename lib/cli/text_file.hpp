#pragma once

#include <functional>
#include <string>

namespace attn::cli {

/// Writes `text` to `destination`, the value of --`option`: whole or not at all where that is a
/// regular file or nothing yet, as a stream where it is anything else; "" is standard output.
/// `before_end`, where given, is called when all that a full disk could refuse is done: before a
/// stream is begun, and just after a file has taken its name, which it gives back where
/// `before_end` throws (what was there before is there again). Throws Error(output), and what
/// `before_end` throws.
void write_text(const std::string& text, const std::string& destination, const std::string& option,
                const std::function<void()>& before_end = {});

/// Brings back what a text has replaced whose `before_end` is still running: for signal handlers
/// and other ends of the process.
void undo_texts() noexcept;

/// Refuses, before the run, a destination that could not be written after it. Throws Error(output).
void check_text_destination(const std::string& destination, const std::string& option);

}  // namespace attn::cli
