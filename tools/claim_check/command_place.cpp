#include "claim_check/command_place.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <re2/re2.h>

namespace attn::tools {
namespace {

namespace fs = std::filesystem;

bool is_in(const std::string& path, const std::string& folder) {
  return path == folder || path.starts_with(folder + "/");
}

bool is_in_any(const std::string& path, const std::vector<std::string>& folders) {
  return std::any_of(folders.begin(), folders.end(),
                     [&](const std::string& folder) { return is_in(path, folder); });
}

// Without following a link: /dev/stdout leads to one of this process.
bool is_plain_file(const std::string& path) {
  std::error_code failed;
  return fs::is_regular_file(fs::symlink_status(path, failed));
}

std::vector<std::string> names_of(const std::string& folder) {
  std::error_code failed;
  return {folder, fs::canonical(folder, failed).string()};
}

}  // namespace

CommandPlace::CommandPlace(const std::string& folder, const std::string& around)
    : folders_(names_of(folder)), arounds_(names_of(around)) {}

CommandPlace::Where CommandPlace::where(const std::string& path) const {
  static const RE2 through(R"(/proc/.*/(cwd|root)/.*|(/proc/.*|/dev)/(fd|map_files)/[^/]*/.*)");
  static const RE2 system("/(proc|sys|dev)(/.*)?");
  if (is_in_any(path, folders_)) return Where::inside;
  if (std::count(arounds_.begin(), arounds_.end(), path) > 0) return Where::above;
  if (is_in_any(path, arounds_)) return Where::beside;
  if (RE2::FullMatch(path, through)) return Where::behind;
  const bool is_of_system = RE2::FullMatch(path, system) && !is_in(path, "/dev/shm") &&
                            path.find("/..") == std::string::npos &&
                            !(is_in(path, "/dev") && is_plain_file(path));
  return is_of_system ? Where::system : Where::elsewhere;
}

std::string CommandPlace::plain(const std::string& path) const {
  if (!is_in_any(path, arounds_)) return path;
  std::string found = fs::path(path).lexically_normal().string();
  if (found.size() > 1 && found.ends_with('/')) found.pop_back();
  return found;
}

}  // namespace attn::tools
