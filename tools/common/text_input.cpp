#include "common/text_input.hpp"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <vector>

#include "attnkit/error.hpp"
#include "common/bundles.hpp"
#include "system/system_reason.hpp"

namespace attn::tools {

std::string read_text(const std::string& file, std::size_t most_bytes,
                      const std::string& expected) {
  std::error_code failed;
  if (!std::filesystem::exists(file, failed)) throw Error(Failure::input, "no such file: " + file);
  if (std::filesystem::is_directory(file, failed)) {
    throw Error(Failure::input, file + " is a folder, expected " + expected);
  }
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw Error(Failure::input, "cannot open " + file + ": " + system_reason(errno));
  std::string text;
  std::vector<char> block(std::size_t{1} << 16);
  errno = 0;
  while (stream.read(block.data(), static_cast<std::streamsize>(block.size())),
         stream.gcount() > 0) {
    text.append(block.data(), static_cast<std::size_t>(stream.gcount()));
    if (text.size() > most_bytes) {
      throw Error(Failure::input, file + " is larger than " +
                                      bytes_text(static_cast<double>(most_bytes)) + ", expected " +
                                      expected);
    }
  }
  if (stream.bad()) {
    throw Error(Failure::input, file + " cannot be read: " + system_reason(errno));
  }
  return text;
}

}  // namespace attn::tools
