#include "claim_check/run_stamp.hpp"

#include <sys/utsname.h>

#include <ctime>
#include <fstream>
#include <string_view>

#include <fmt/format.h>

#include "claim_check/shell_command.hpp"
#include "cli/words.hpp"

namespace attn::tools {
namespace {

// With milliseconds, which distinguish records.
std::string utc_now() {
  std::timespec now = {};
  std::timespec_get(&now, TIME_UTC);
  std::tm parts = {};
  gmtime_r(&now.tv_sec, &parts);
  char text[32];
  const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return fmt::format("{}.{:03}Z", std::string_view(text, length), now.tv_nsec / 1000000);
}

std::string commit_of(const std::string& claims, const std::string& scratch) {
  ShellCommand command;
  // Another user's repository may be read, too.
  command.command =
      "git -c safe.directory='*' -C \"$CLAIMS\" describe --always --dirty --abbrev=12 "
      "--exclude='*' >commit";
  command.directory = scratch;
  command.errors = scratch + "/commit.log";
  command.environment = {{"CLAIMS", claims}};
  command.time_limit = 60;
  std::string commit;
  if (run_shell(command).status == 0) std::ifstream(scratch + "/commit") >> commit;
  return commit.empty() ? "unknown" : commit;
}

}  // namespace

std::string cpu_model() {
  std::ifstream stream("/proc/cpuinfo");
  for (std::string line; std::getline(stream, line);) {
    const std::size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return cli::one_line(line.substr(colon + 2));
    }
  }
  utsname system = {};
  return uname(&system) == 0 ? system.machine : "unknown";
}

RunStamp stamp_of_run(const std::string& version, const std::string& claims,
                      const std::string& commit, const std::string& scratch) {
  return {commit.empty() ? commit_of(claims, scratch) : commit, version, cpu_model(), utc_now()};
}

}  // namespace attn::tools
