#include "io/hdf5/read_parts.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace attn;
using namespace attn::io;

namespace {

constexpr Index most_part_bytes = Index{64} << 20;

struct Seen {
  std::vector<Part> parts;
  std::vector<int> times;  // how often each element was visited
};

Seen parts_of(const Parts& parts, const Shape& count) {
  Seen seen;
  seen.times.assign(static_cast<std::size_t>(element_count(count)), 0);
  for_each_part(parts, count, [&](const Part& part) {
    seen.parts.push_back(part);
    for (Index n = 0; n < element_count(part.count); ++n) {
      const Shape inside = unravel(n, part.count);
      Index at = 0;
      for (std::size_t axis = 0; axis < count.size(); ++axis) {
        at = at * count[axis] + part.start[axis] + inside[axis];
      }
      ++seen.times[static_cast<std::size_t>(at)];
    }
  });
  return seen;
}

}  // namespace

TEST_CASE("A small read is one part") {
  for (const Shape& count : {Shape{}, Shape{3}, Shape{0, 4}, Shape{2, 3, 4}}) {
    const Shape zeros(count.size(), 0);
    const Shape ones(count.size(), 1);
    const Seen seen = parts_of({zeros, ones, {}, 8}, count);
    REQUIRE(seen.parts.size() == 1);
    CHECK(seen.parts[0].count == count);
    CHECK(seen.parts[0].start == zeros);
  }
}

TEST_CASE("A large read is cut into parts that meet each element once") {
  // Elements of a MiB each, so that few elements are many bytes.
  constexpr Index mib = Index{1} << 20;
  const std::vector<Shape> chunks = {{}, {1, 1, 1}, {2, 3, 4}, {5, 50, 7}, {64, 64, 64}};
  for (const Shape& chunk : chunks) {
    for (const Index step : {1, 2, 5}) {
      const Parts parts{{1, 0, 3}, {step, 1, step}, chunk, mib};
      const Seen seen = parts_of(parts, {6, 40, 9});
      for (const int times : seen.times) CHECK(times == 1);
      CHECK((seen.parts.size() > 1) == (chunk != Shape{64, 64, 64}));
      for (const Part& part : seen.parts) {
        if (chunk.empty() || element_count(chunk) * mib <= most_part_bytes) {
          CHECK(element_count(part.count) * mib <= most_part_bytes);
        }
      }
    }
  }
}

TEST_CASE("Chunks are not cut") {
  const Parts parts{{3}, {2}, {10}, most_part_bytes / 16};
  Index behind = -1;  // the last chunk of the previous part
  for (const Part& part : parts_of(parts, {100}).parts) {
    const Index first = (3 + 2 * part.start[0]) / 10;
    CHECK(first > behind);
    behind = (3 + 2 * (part.start[0] + part.count[0] - 1)) / 10;
  }
}
