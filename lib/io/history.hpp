#pragma once

#include <string>

namespace attn::io {

/// "2026-03-01T12:00:00Z: attn-compute in.h5 -o out.h5 (0.1.0)", always one line. The time is
/// SOURCE_DATE_EPOCH if that is set, so that outputs are byte-identical, else now. Throws
/// Error(usage) if the variable is not a number of seconds.
std::string history_line(const std::string& command_line, const std::string& version);

}  // namespace attn::io
