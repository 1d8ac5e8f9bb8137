#include "claim_check/file_digests.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "attnkit/error.hpp"
#include "claim_check/shell_command.hpp"
#include "cli/words.hpp"

namespace attn::tools {
namespace {

namespace fs = std::filesystem;

std::string content_of(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace

std::map<std::string, std::string> file_digests(const std::vector<std::string>& files,
                                                const std::string& folder) {
  std::map<std::string, std::string> found;
  if (files.empty()) return found;
  std::string list;
  for (const std::string& file : files) list += fs::absolute(file).string() + '\0';
  std::ofstream(folder + "/files", std::ios::binary) << list;
  ShellCommand command;
  command.command = "xargs -0 sha256sum -z -- <files >sums";
  command.directory = folder;
  command.errors = folder + "/sums.log";
  command.time_limit = 600;
  if (run_shell(command).status != 0) {
    throw Error(Failure::input, "no digests: " + cli::one_line(content_of(command.errors)));
  }
  // A digest, two characters and a name, each ended by a zero.
  const std::string sums = content_of(folder + "/sums");
  auto name = files.begin();
  for (std::size_t at = 0; at < sums.size(); at = sums.find('\0', at) + 1) {
    found[*name++] = sums.substr(at, 64);
  }
  return found;
}

}  // namespace attn::tools
