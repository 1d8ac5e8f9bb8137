#include "common/frame/stream_input.hpp"

#include <filesystem>
#include <system_error>

#include "io/address.hpp"

namespace attn::tools {
namespace {

// "standard input"; null if `address` is no stream.
const char* stream_kind(const std::string& address) {
  const std::string file = io::parse_address(address).file;
  if (file == "-") return "standard input";
  std::error_code none;
  const std::filesystem::file_status status = std::filesystem::status(file, none);
  if (std::filesystem::is_fifo(status)) return "a pipe";
  return std::filesystem::is_character_file(status) ? "a device" : nullptr;
}

}  // namespace

std::optional<std::string> stream_input(const cli::Arguments& arguments) {
  for (const std::string& input : arguments.inputs) {
    if (const char* const kind = stream_kind(input)) return std::string("INPUT is ") + kind;
  }
  for (const auto& [name, address] : arguments.named_inputs) {
    if (const char* const kind = stream_kind(address)) return "-i " + name + " is " + kind;
  }
  return std::nullopt;
}

}  // namespace attn::tools
