#include "io/hdf5/groups.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "attnkit/error.hpp"
#include "io/hdf5/group_walk.hpp"

namespace attn::io {
namespace {

std::vector<std::string> levels_of(const std::string& pattern) {
  std::vector<std::string> levels;
  for (std::size_t start = 0; start < pattern.size();) {
    const std::size_t end = std::min(pattern.find('/', start), pattern.size());
    if (end > start) levels.push_back(pattern.substr(start, end - start));
    start = end + 1;
  }
  return levels;
}

class Match {
 public:
  explicit Match(const std::string& pattern) : levels_(levels_of(pattern)) {
    constexpr std::size_t most = 100;
    if (levels_.size() <= most) return;
    throw Error(Failure::usage, "a pattern of groups has " + std::to_string(levels_.size()) +
                                    " levels, expected at most " + std::to_string(most));
  }

  /// Recurses to the depth of the pattern.
  void visit(const Object& group, const std::string& address, const std::string& path,
             std::size_t level) {
    if (level == levels_.size()) {
      if (seen_.insert(h5::identity(group.handle.get())).second) found_.push_back(path);
      return;
    }
    for (const h5::Link& link : links_by_number(group.handle.get(), address)) {
      if (fnmatch(levels_[level].c_str(), link.name.c_str(), 0) != 0) continue;
      const std::string below = address + "/" + link.name;
      const auto next = open_object(group.file, group.handle.get(), link.name, below);
      if (!next || next->kind != h5::Kind::group) continue;
      visit(*next, below, path.empty() ? link.name : path + "/" + link.name, level + 1);
    }
  }

  std::vector<std::string> take() { return std::move(found_); }

 private:
  std::vector<std::string> levels_;
  std::set<std::string> seen_;
  std::vector<std::string> found_;
};

/// The group behind the link; empty if it cannot be opened.
std::optional<Object> group_behind(const GroupWalk::Member& member) {
  try {
    auto object =
        open_object(member.group.file, member.group.handle.get(), member.link.name, member.address);
    if (object && object->kind == h5::Kind::group) return object;
  } catch (const Error& error) {
    if (error.failure() != Failure::input) throw;
  }
  return {};
}

}  // namespace

std::vector<std::string> matching_groups(const Object& group, const std::string& address,
                                         const std::string& pattern) {
  Match match(pattern);
  match.visit(group, address, "", 0);
  return match.take();
}

std::vector<std::string> all_groups(const Object& group, const std::string& address) {
  std::set<std::string> seen = {h5::identity(group.handle.get())};
  std::vector<std::string> found;
  GroupWalk walk;
  walk.visit = [&](const GroupWalk::Member& member) -> std::optional<Object> {
    std::optional<Object> next = group_behind(member);
    if (!next || !seen.insert(h5::identity(next->handle.get())).second) return {};
    found.push_back(member.path);
    return next;
  };
  walk.run(group.again(), address);
  return found;
}

}  // namespace attn::io
