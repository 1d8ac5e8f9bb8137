#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "io/hdf5/open_object.hpp"

namespace attn::io {

/// A group's links sorted by name, with numbers in numerical order: layer2 before layer10.
std::vector<h5::Link> links_by_number(hid_t group, const std::string& address);

/// Visits the objects below a group depth first. Uses a stack of its own, since a file may nest
/// groups to any depth. Called under h5::Lock.
class GroupWalk {
 public:
  /// A visited link. `address` is its name in messages ("a.h5:/text/layer3"); `path` is relative to
  /// the start of the walk, without a leading slash.
  struct Member {
    const Object& group;
    const h5::Link& link;
    const std::string& address;
    const std::string& path;
  };

  /// `links` lists a group in the wanted order. `visit` is called for each link; if it returns a
  /// group, that group is visited next, and `leave`, if set, is called when the whole group has
  /// been visited. Throws Error(input) if a path grows beyond 16 KiB.
  std::function<std::vector<h5::Link>(hid_t, const std::string& address)> links = links_by_number;
  std::function<std::optional<Object>(const Member&)> visit;
  std::function<void()> leave = {};

  /// `address` is the name of `root` in messages, "a.h5:" for the root of a file.
  void run(Object root, std::string address) const;
};

}  // namespace attn::io
