#include "io/history.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "attnkit/error.hpp"

namespace attn::io {
namespace {

[[noreturn]] void refuse(const char* text) {
  throw Error(Failure::usage,
              "SOURCE_DATE_EPOCH is '" + std::string(text) + "', expected seconds since 1970");
}

/// The time in ISO 8601, UTC.
std::string time_stamp() {
  std::time_t seconds = std::time(nullptr);
  const char* fixed = std::getenv("SOURCE_DATE_EPOCH");
  if (fixed != nullptr && *fixed != '\0') {
    std::int64_t value = 0;
    const char* end = fixed + std::strlen(fixed);
    const auto [parsed, error] = std::from_chars(fixed, end, value);
    if (error != std::errc() || parsed != end || value < 0) refuse(fixed);
    seconds = static_cast<std::time_t>(value);
  }
  std::tm utc{};
  if (gmtime_r(&seconds, &utc) == nullptr) refuse(fixed == nullptr ? "" : fixed);
  char text[64];
  return std::string(text, std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc));
}

}  // namespace

std::string history_line(const std::string& command_line, const std::string& version) {
  std::string line = time_stamp() + ": " + command_line + " (" + version + ")";
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

}  // namespace attn::io
