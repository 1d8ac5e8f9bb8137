#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "io/hdf5/open_object.hpp"

namespace attn::io {

/// A group's links sorted by name, numbers in the order of their values: layer2 before layer10.
std::vector<h5::Link> links_by_number(hid_t group, const std::string& address);

/// Visits what lies below a group depth first, with a stack of its own: groups may be nested as
/// deep as a file says. Called under h5::Lock.
class GroupWalk {
 public:
  /// A link that is visited. `address` is what messages call it ("a.h5:/text/layer3"), `path` leads
  /// to it from where the walk began, without a leading slash.
  struct Member {
    const Object& group;
    const h5::Link& link;
    const std::string& address;
    const std::string& path;
  };

  /// `links` lists a group in the order wanted. `visit` is called for each link; a group that it
  /// returns is visited next, and `leave`, where given, is called when all of that group was.
  /// Throws Error(input) where paths grow beyond 16 KiB.
  std::function<std::vector<h5::Link>(hid_t, const std::string& address)> links = links_by_number;
  std::function<std::optional<Object>(const Member&)> visit;
  std::function<void()> leave = {};

  /// `address` is that of `root`, "a.h5:" for the root of a file.
  void run(Object root, std::string address) const;
};

}  // namespace attn::io
