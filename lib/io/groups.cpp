#include "io/groups.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>
#include <utility>

#include "io/lookup.hpp"
#include "tensor/error.hpp"

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

/// The groups directly in one, opened.
void for_each_group(hid_t parent, const std::string& address, const std::string& path,
                    const std::function<void(hid_t, const std::string&, const std::string&)>& visit,
                    const std::function<bool(const std::string&)>& wanted) {
  for (const h5::Link& link : links_by_number(parent, address)) {
    if (!wanted(link.name) || h5::kind_of(parent, link.name) != h5::Kind::group) continue;
    const std::string below = address + "/" + link.name;
    const h5::Handle group(H5Gopen2(parent, link.name.c_str(), H5P_DEFAULT), H5Gclose);
    if (!group) {
      throw Error(Failure::input, below + " cannot be opened: " + h5::last_reason().text);
    }
    visit(group.get(), below, path.empty() ? link.name : path + "/" + link.name);
  }
}

class Match {
 public:
  explicit Match(const std::string& pattern) : levels_(levels_of(pattern)) {}

  void visit(hid_t group, const std::string& address, const std::string& path, std::size_t level) {
    if (level == levels_.size()) {
      if (seen_.insert(h5::identity(group)).second) found_.push_back(path);
      return;
    }
    for_each_group(
        group, address, path,
        [&](hid_t next, const std::string& next_address, const std::string& next_path) {
          visit(next, next_address, next_path, level + 1);
        },
        [&](const std::string& name) {
          return fnmatch(levels_[level].c_str(), name.c_str(), 0) == 0;
        });
  }

  std::vector<std::string> take() { return std::move(found_); }

 private:
  std::vector<std::string> levels_;
  std::set<std::string> seen_;
  std::vector<std::string> found_;
};

void list_below(hid_t group, const std::string& address, const std::string& path,
                std::set<std::string>& seen, std::vector<std::string>& found) {
  if (!seen.insert(h5::identity(group)).second) return;
  if (!path.empty()) found.push_back(path);
  for_each_group(
      group, address, path,
      [&](hid_t next, const std::string& next_address, const std::string& next_path) {
        list_below(next, next_address, next_path, seen, found);
      },
      [](const std::string&) { return true; });
}

}  // namespace

std::vector<h5::Link> links_by_number(hid_t group, const std::string& address) {
  std::vector<h5::Link> links = h5::links(group, address);
  std::sort(links.begin(), links.end(), [](const h5::Link& a, const h5::Link& b) {
    return strverscmp(a.name.c_str(), b.name.c_str()) < 0;
  });
  return links;
}

std::vector<std::string> matching_groups(hid_t group, const std::string& address,
                                         const std::string& pattern) {
  Match match(pattern);
  match.visit(group, address, "", 0);
  return match.take();
}

std::vector<std::string> all_groups(hid_t group, const std::string& address) {
  std::set<std::string> seen;
  std::vector<std::string> found;
  list_below(group, address, "", seen, found);
  return found;
}

}  // namespace attn::io
