#include "io/hdf5/group_walk.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "attnkit/error.hpp"

namespace attn::io {
namespace {

/// HDF5 keeps the path of each open group, so memory grows with the square of the depth.
constexpr std::size_t longest_path = std::size_t{16} << 10;

struct Level {
  Object group;
  std::vector<h5::Link> links;
  std::size_t next;
  std::size_t address_size;  // length of the group's own address
  std::size_t path_size;
};

}  // namespace

std::vector<h5::Link> links_by_number(hid_t group, const std::string& address) {
  std::vector<h5::Link> links = h5::links(group, address);
  std::sort(links.begin(), links.end(), [](const h5::Link& a, const h5::Link& b) {
    return strverscmp(a.name.c_str(), b.name.c_str()) < 0;
  });
  return links;
}

void GroupWalk::run(Object root, std::string address) const {
  std::string path;
  std::vector<Level> levels;
  const auto enter = [&](Object group) {
    std::vector<h5::Link> members = links(group.handle.get(), address);
    levels.push_back({std::move(group), std::move(members), 0, address.size(), path.size()});
  };
  enter(std::move(root));
  while (!levels.empty()) {
    Level& level = levels.back();
    address.resize(level.address_size);
    path.resize(level.path_size);
    if (level.next == level.links.size()) {
      levels.pop_back();
      if (leave && !levels.empty()) leave();
      continue;
    }
    const h5::Link& link = level.links[level.next++];
    address += "/" + link.name;
    path += (path.empty() ? "" : "/") + link.name;
    if (path.size() > longest_path) {
      throw Error(Failure::input, address.substr(0, 80) + "... is nested too deep: its path has " +
                                      "more than 16 KiB");
    }
    std::optional<Object> group = visit({level.group, link, address, path});
    if (group) enter(std::move(*group));
  }
}

}  // namespace attn::io
