// tools/common/runs/checkpoint_record: results as bytes and back.

#include "common/runs/checkpoint_record.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tensor/pooled_vector.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;
using namespace attn::tools;

namespace {

struct Inner {
  std::vector<double> numbers;
  std::string text;
};

struct RecordOfAll {
  double number = 0;
  std::optional<Index> some;
  std::optional<Index> none;
  Buffer<float> buffer;
  PooledVector<Index> indices;
  std::vector<Inner> parts;
  std::vector<std::vector<double>> nested;
};

template <class Archive>
void archive(Archive& with, Inner& inner) {
  archive(with, inner.numbers);
  archive(with, inner.text);
}

template <class Archive>
void archive(Archive& with, RecordOfAll& all) {
  archive(with, all.number);
  archive(with, all.some);
  archive(with, all.none);
  archive(with, all.buffer);
  archive(with, all.indices);
  archive(with, all.parts);
  archive(with, all.nested);
}

std::vector<char> saved(RecordOfAll& all) {
  std::vector<char> bytes;
  SavingArchive to([&](const void* from, std::size_t count) {
    const char* const first = static_cast<const char*>(from);
    bytes.insert(bytes.end(), first, first + count);
  });
  archive(to, all);
  return bytes;
}

// Returns how many bytes were not read.
std::size_t load(const std::vector<char>& bytes, RecordOfAll& all) {
  std::size_t at = 0;
  LoadingArchive from(
      [&](void* to, std::size_t count) {
        if (bytes.size() - at < count) throw Error(Failure::input, "it ends");
        std::copy_n(bytes.data() + at, count, static_cast<char*>(to));
        at += count;
      },
      [&] { return bytes.size() - at; });
  archive(from, all);
  return bytes.size() - at;
}

RecordOfAll example() {
  RecordOfAll all;
  all.number = -std::numeric_limits<double>::infinity();
  all.some = 7;
  all.buffer = Buffer<float>(3);
  std::fill(all.buffer.begin(), all.buffer.end(), 0.1F);
  all.indices = {1, 2};
  all.parts = {{{0.5}, "one"}, {{}, ""}};
  all.nested = {{}, {1, 2, 3}};
  return all;
}

}  // namespace

TEST_CASE("a record comes back as it was") {
  RecordOfAll all = example();
  RecordOfAll back;
  back.none = 3;
  back.indices = {9, 9, 9};
  CHECK(load(saved(all), back) == 0);
  CHECK(back.number == all.number);
  CHECK(back.some == all.some);
  CHECK(!back.none);
  REQUIRE(back.buffer.size() == 3);
  CHECK(std::equal(back.buffer.begin(), back.buffer.end(), all.buffer.begin()));
  CHECK(back.indices == all.indices);
  REQUIRE(back.parts.size() == 2);
  CHECK(back.parts[0].numbers == all.parts[0].numbers);
  CHECK(back.parts[0].text == "one");
  CHECK(back.nested == all.nested);
}

TEST_CASE("a length that the bytes cannot have is refused before memory is taken") {
  RecordOfAll all = example();
  const std::vector<char> bytes = saved(all);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    RecordOfAll back;
    const std::vector<char> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
    CHECK_THROWS_AS(load(cut, back), Error);
  }
  std::vector<char> absurd = bytes;
  const std::uint64_t count = std::uint64_t{1} << 60;
  std::memcpy(absurd.data() + sizeof(double) + 2 * sizeof(std::optional<Index>), &count,
              sizeof(count));
  RecordOfAll back;
  CHECK_THROWS_AS(load(absurd, back), Error);
}
