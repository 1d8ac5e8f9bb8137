#include "tensor_join/held_twice.hpp"

#include <algorithm>

namespace attn::tools {

std::optional<HeldTwice> held_twice(const std::vector<const std::vector<Index>*>& lists,
                                    Index count) {
  std::vector<bool> held(static_cast<std::size_t>(count));
  for (std::size_t second = 0; second < lists.size(); ++second) {
    for (const Index number : *lists[second]) {
      if (!held[static_cast<std::size_t>(number)]) {
        held[static_cast<std::size_t>(number)] = true;
        continue;
      }
      std::size_t first = 0;
      while (!std::binary_search(lists[first]->begin(), lists[first]->end(), number)) ++first;
      return HeldTwice{number, first, second};
    }
  }
  return {};
}

}  // namespace attn::tools
