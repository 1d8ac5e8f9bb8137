#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "io/arrays/strided_read.hpp"

using namespace attn;
using namespace attn::io;

namespace {

/// Bytes in memory that count reads and read bytes, and refuse reads beyond the end.
class CountedBytes : public Bytes {
 public:
  explicit CountedBytes(std::vector<char> content)
      : Bytes(static_cast<Index>(content.size())), content_(std::move(content)) {}

  void read(Index offset, Index count, void* out) const override {
    REQUIRE(offset >= 0);
    REQUIRE(count >= 0);
    REQUIRE(offset + count <= size());
    std::memcpy(out, content_.data() + offset, static_cast<std::size_t>(count));
    ++calls;
    bytes += count;
  }

  mutable Index calls = 0;
  mutable Index bytes = 0;

 private:
  std::vector<char> content_;
};

std::vector<char> random_content(Index size) {
  std::mt19937 random(7);
  std::vector<char> content(static_cast<std::size_t>(size));
  for (char& c : content) c = static_cast<char>(random());
  return content;
}

/// Element by element, as in the contract.
std::vector<char> plain(const std::vector<char>& content, Index offset,
                        const std::vector<StridedAxis>& axes, std::size_t size, Index total) {
  std::vector<char> out(static_cast<std::size_t>(total) * size);
  Shape counts;
  for (const StridedAxis& axis : axes) counts.push_back(axis.count);
  for (Index i = 0; i < element_count(counts); ++i) {
    const Shape at = unravel(i, counts);
    Index from = offset;
    Index to = 0;
    for (std::size_t a = 0; a < axes.size(); ++a) {
      from += at[a] * axes[a].file_step;
      to += at[a] * axes[a].out_step;
    }
    std::memcpy(out.data() + static_cast<std::size_t>(to) * size, content.data() + from, size);
  }
  return out;
}

}  // namespace

TEST_CASE("strided blocks equal element-by-element indexing") {
  std::mt19937 random(1);
  const std::vector<char> content = random_content(3 << 20);
  const CountedBytes bytes(content);
  for (int round = 0; round < 400; ++round) {
    const std::size_t size = std::vector<std::size_t>{1, 2, 4, 8, 12}[random() % 5];
    const std::size_t rank = random() % 5;
    // Gaps of all sizes between the elements of an axis, from none to more than a page.
    std::vector<StridedAxis> axes(rank);
    Index span = static_cast<Index>(size);
    for (std::size_t a = rank; a-- > 0;) {
      axes[a].count = 1 + random() % (round % 10 == 0 ? 70 : 6);
      const Index gap = random() % 3 == 0 ? 0 : random() % (random() % 4 == 0 ? 6000 : 60);
      axes[a].file_step = span + gap;
      while ((axes[a].count - 1) * axes[a].file_step + span > bytes.size()) --axes[a].count;
      span += (axes[a].count - 1) * axes[a].file_step;
    }
    // Any order of the axes in memory.
    std::vector<std::size_t> order(rank);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    Index total = 1;
    for (const std::size_t a : order) {
      axes[a].out_step = total;
      total *= axes[a].count;
    }
    const Index offset = bytes.size() - span;
    std::vector<char> found(static_cast<std::size_t>(total) * size);
    read_strided(bytes, offset, axes, size, found.data());
    CHECK(found == plain(content, offset, axes, size, total));
  }
}

TEST_CASE("a block in Fortran order takes few calls") {
  // 300 x 500 float32, with the first axis varying fastest.
  const CountedBytes bytes(random_content(300 * 500 * 4));
  std::vector<float> out(300 * 500);
  read_strided(bytes, 0, {{500, 1200, 1}, {300, 4, 500}}, 4, out.data());
  CHECK(bytes.calls <= 4);
  CHECK(bytes.bytes == bytes.size());
  // Some rows of it: ranges of each column, read together.
  bytes.calls = 0;
  read_strided(bytes, 40, {{500, 1200, 1}, {8, 4, 500}}, 4, out.data());
  CHECK(bytes.calls <= 4);
  // One row.
  bytes.calls = 0;
  read_strided(bytes, 40, {{500, 1200, 1}}, 4, out.data());
  CHECK(bytes.calls <= 4);
}

TEST_CASE("a contiguous block is one call, straight into memory") {
  const CountedBytes bytes(random_content(1 << 20));
  std::vector<char> out(1 << 20);
  read_strided(bytes, 0, {{16, 1 << 16, 1 << 14}, {1 << 14, 4, 1}}, 4, out.data());
  CHECK(bytes.calls == 1);
}

TEST_CASE("bytes between distant elements are not read") {
  const CountedBytes bytes(random_content(1 << 20));
  std::vector<float> out(16);
  read_strided(bytes, 0, {{16, 1 << 16, 1}}, 4, out.data());
  CHECK(bytes.bytes == 64);
}
