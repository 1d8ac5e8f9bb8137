#include "io/arrays/array_paths.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "io/address.hpp"

namespace attn::io {
namespace {

/// The paths of the groups above `path`.
std::vector<std::string> groups_above(const std::string& path) {
  std::vector<std::string> above;
  for (std::size_t end = path.find('/'); end != std::string::npos; end = path.find('/', end + 1)) {
    above.push_back(path.substr(0, end));
  }
  return above;
}

using Paths = std::map<std::string, std::string>;

/// As deep and as long as patterns of groups and walks over them may be.
constexpr std::size_t most_levels = 100;
constexpr std::size_t longest_path = std::size_t{16} << 10;

/// Whether `path` was free, and can be reached through groups.
bool place_array(const std::string& path, const std::string& name,
                 const std::set<std::string>& groups, Paths& paths) {
  const std::vector<std::string> above = groups_above(path);
  const bool possible =
      can_be_path(path) && path.size() <= longest_path && above.size() < most_levels &&
      groups.count(path) == 0 && paths.count(path) == 0 &&
      std::none_of(above.begin(), above.end(),
                   [&](const std::string& group) { return paths.count(group) != 0; });
  if (possible) paths[path] = name;
  return possible;
}

}  // namespace

bool can_be_path(const std::string& path) {
  const std::string whole = "/" + path + "/";
  return whole.find("//") == std::string::npos && whole.find("/./") == std::string::npos &&
         path.find('\0') == std::string::npos;
}

std::map<std::string, std::string> array_paths(const std::vector<std::string>& names) {
  std::vector<std::string> sorted = names;
  std::sort(sorted.begin(), sorted.end());
  Paths paths;
  std::set<std::string> groups;
  // Names without dots have but one place.
  for (const std::string& name : sorted) {
    if (name.find('.') == std::string::npos) place_array(name, name, {}, paths);
  }
  for (const std::string& name : sorted) {
    const std::string path = with_slashes(name);
    std::vector<std::string> above = groups_above(path);
    if (!can_be_path(path) || path.size() > longest_path || above.size() >= most_levels) continue;
    for (std::string& group : above) {
      if (paths.count(group) != 0) break;
      groups.insert(std::move(group));
    }
  }
  for (const std::string& name : sorted) {
    if (name.find('.') == std::string::npos) continue;
    const bool placed = place_array(with_slashes(name), name, groups, paths);
    if (!placed) place_array(name, name, groups, paths);
  }
  return paths;
}

}  // namespace attn::io
