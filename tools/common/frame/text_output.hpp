#pragma once

#include <memory>
#include <string>

#include "cli/command.hpp"
#include "io/target/target_writer.hpp"

namespace attn::tools {

/// Opens `file`, or standard output for "-", for text that a tool writes in place of a bundle, with
/// --force and --tmpdir. Throws Error(usage) if --json names the same file or stream, and what
/// io::OutputBundle throws for a target that it refuses.
std::shared_ptr<io::TargetWriter> open_text_output(const cli::Arguments& arguments,
                                                   const std::string& file);

}  // namespace attn::tools
