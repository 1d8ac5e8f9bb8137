#include "head/shared_parts.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "random_problem.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

// A thing that knows the key for which it was filled in.
struct Filled {
  Index with = -1;
  std::vector<int> storage;
};

using Parts = SharedParts<Index, Filled>;

void want(Parts& parts, const std::vector<Index>& keys) {
  parts.start();
  for (const Index key : keys) parts.want(key);
  parts.settle();
}

}  // namespace

TEST_CASE("equal keys share a part, and the next batch keeps what it wants, too") {
  Random random(321);
  Parts parts;
  std::vector<Index> before;
  for (int batch = 0; batch < 200; ++batch) {
    std::vector<Index> keys(static_cast<std::size_t>(random_index(random, 0, 12)));
    for (Index& key : keys) key = random_index(random, 0, 8);
    want(parts, keys);
    for (auto& part : parts.parts()) {
      const bool known = std::count(before.begin(), before.end(), part.key) > 0;
      CHECK(part.is_new == !known);
      if (part.is_new) part.thing.with = part.key;
      part.is_new = false;
      // The first of the list that wants the key.
      const auto first = std::find(keys.begin(), keys.end(), part.key);
      CHECK(part.wanted_by == first - keys.begin());
    }
    CHECK(std::is_sorted(parts.parts().begin(), parts.parts().end(),
                         [](const auto& a, const auto& b) { return a.key < b.key; }));
    for (std::size_t n = 0; n < keys.size(); ++n) {
      CHECK(parts.of(static_cast<Index>(n)).with == keys[n]);
    }
    before = keys;
  }
}

TEST_CASE("a new key gets the memory of a part that is no longer wanted") {
  Parts parts;
  want(parts, {1, 2, 3});
  std::vector<const int*> storages;
  for (auto& part : parts.parts()) {
    part.thing.storage.resize(10);
    storages.push_back(part.thing.storage.data());
    part.is_new = false;
  }
  want(parts, {2, 7, 9, 11});
  CHECK(parts.of(0).storage.data() == storages[1]);
  CHECK(parts.of(1).storage.data() == storages[0]);
  CHECK(parts.of(2).storage.data() == storages[2]);
  CHECK(parts.of(3).storage.empty());
}
