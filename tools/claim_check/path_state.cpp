#include "claim_check/path_state.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "claim_check/digests.hpp"

namespace attn::tools {
namespace {

namespace fs = std::filesystem;

// More than the step of the clock by which the kernel dates changes.
constexpr std::int64_t recent = 20000000;

std::int64_t nanoseconds(const std::timespec& time) {
  return std::int64_t{time.tv_sec} * 1000000000 + time.tv_nsec;
}

// Names and kinds of the entries of a folder, in order; absent if the folder cannot be read.
std::optional<std::string> entries_of(const std::string& folder) {
  std::error_code failed;
  std::vector<std::string> names;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    const int kind = static_cast<int>(at->symlink_status(failed).type());
    names.push_back(at->path().filename().string() + '/' + std::to_string(kind));
  }
  if (failed) return {};
  std::sort(names.begin(), names.end());
  std::string all;
  for (const std::string& name : names) all += name + '\0';
  return all;
}

}  // namespace

std::int64_t file_time_now() {
  std::timespec now = {};
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return nanoseconds(now);
}

PathStates::Version PathStates::version_of(const struct stat& status) {
  return {status.st_dev, status.st_ino, status.st_size, nanoseconds(status.st_ctim)};
}

std::optional<std::string> PathStates::digest(const std::string& file, const Version& version) {
  const auto known = digests_.find(version);
  if (known != digests_.end()) return known->second;
  auto found = sha256_of_file(file);
  // A second change within one step of the clock would not be seen.
  if (found && file_time_now() - std::get<3>(version) > recent) digests_.emplace(version, *found);
  return found;
}

std::optional<PathState> PathStates::of(const std::string& path, bool opened) {
  PathState state;
  struct stat status = {};
  if (lstat(path.c_str(), &status) != 0) {
    state.text = fmt::format("no {}", errno);
    return state;
  }
  state.is_there = true;
  if (S_ISLNK(status.st_mode)) {
    std::error_code failed;
    state.text = "link " + fs::read_symlink(path, failed).string() + '\0';
    state.changed = nanoseconds(status.st_ctim);
    if (failed) return {};
    if (stat(path.c_str(), &status) != 0) {
      state.text += fmt::format("no {}", errno);
      return state;
    }
  }
  state.leads_somewhere = true;
  state.file = {status.st_dev, status.st_ino};
  state.text += fmt::format("{:o} {} {} ", status.st_mode, status.st_uid, status.st_gid);
  if (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode)) {
    state.text += std::to_string(status.st_rdev);
    return state;
  }
  const bool is_folder = S_ISDIR(status.st_mode);
  if (is_folder && !opened) return state;
  if (!is_folder && !S_ISREG(status.st_mode)) return {};
  const Version version = version_of(status);
  const auto content = is_folder ? entries_of(path) : digest(path, version);
  if (!content || stat(path.c_str(), &status) != 0 || version_of(status) != version) return {};
  if (!is_folder) {
    state.text += fmt::format("{} ", status.st_nlink);
    // For an opened file, a copy with a different time is equivalent.
    if (!opened) state.text += fmt::format("{} ", nanoseconds(status.st_mtim));
  }
  state.text += *content;
  state.changed = std::max(state.changed, nanoseconds(status.st_ctim));
  return state;
}

}  // namespace attn::tools
