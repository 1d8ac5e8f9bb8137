#include "io/flat_names.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <set>

namespace attn::io {
namespace {

std::string with_slashes(std::string text) {
  std::replace(text.begin(), text.end(), '.', '/');
  return text.substr(std::min(text.find_first_not_of('/'), text.size()));
}

}  // namespace

std::string hint_of_flat_names(const std::vector<std::string>& names, const std::string& pattern,
                               const std::map<std::string, std::string>& renamed) {
  std::string first;  // a name with parts
  std::string group;  // "blocks.0.attn."
  for (const std::string& name : names) {
    const std::size_t end = name.find_last_of("./");
    if (end == std::string::npos) continue;
    if (first.empty()) first = name;
    const std::string before = with_slashes(name.substr(0, end));
    if (fnmatch(with_slashes(pattern).c_str(), before.c_str(), 0) != 0) continue;
    first = name;
    group = name.substr(0, end + 1);
    break;
  }
  if (first.empty()) return {};
  const std::map<std::string, std::string> usual = {{"q", "q"}, {"k", "k"}, {"v", "v"}};
  const std::set<std::string> there(names.begin(), names.end());
  std::string pairs;
  for (const auto& [name, stored] : renamed.empty() ? usual : renamed) {
    if (group.empty() || there.count(group + stored) == 0) continue;
    pairs += (pairs.empty() ? "" : ",") + name + "=" + group + stored;
  }
  if (pairs.empty()) pairs = "NAME=" + first;
  return "its arrays are read by their whole names: --map " + pairs;
}

}  // namespace attn::io
