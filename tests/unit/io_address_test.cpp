#include <doctest/doctest.h>

#include <limits>
#include <random>

#include "io/address.hpp"
#include "io_fixture.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::io;
using namespace attn::testing;

namespace {

/// The positions that a Python loop over range(*slice.indices(length)) visits, found by trying
/// every position instead of computing counts.
std::vector<Index> visited(const SliceItem& item, Index length) {
  Index start = item.start.value_or(0);
  Index stop = item.stop.value_or(length);
  if (start < 0) start += length;
  if (stop < 0) stop += length;
  std::vector<Index> positions;
  for (Index at = 0; at < length; ++at) {
    const Index first = start < 0 ? 0 : start;
    if (at >= first && at < stop && (at - first) % item.step == 0) positions.push_back(at);
  }
  return positions;
}

std::vector<Index> positions_of(const Hyperslab& slab, std::size_t axis) {
  std::vector<Index> positions;
  for (Index k = 0; k < slab.count[axis]; ++k) {
    positions.push_back(slab.start[axis] + k * slab.step[axis]);
  }
  return positions;
}

Hyperslab resolved(const std::string& selection, const Shape& shape) {
  return resolve(parse_address("-:/x" + selection).selection, shape, "x");
}

}  // namespace

TEST_CASE("An address is split at the last colon whose left side is a file") {
  const TemporaryFolder folder;
  for (const char* name : {"a", "a:b", "w[1].h5", "dump.h5"}) write_file(folder / name, "");
  struct Case {
    const char* text;
    const char* file;
    const char* path;
    std::size_t items;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"dump.h5", "dump.h5", "/", 0},
           {"dump.h5:/", "dump.h5", "/", 0},
           {"dump.h5:", "dump.h5", "/", 0},
           {"dump.h5:/layer3/Q", "dump.h5", "/layer3/Q", 0},
           {"dump.h5:layer3/Q/", "dump.h5", "/layer3/Q", 0},
           {"dump.h5:/q[0]", "dump.h5", "/q", 1},
           {"dump.h5:/q[0, 1:2:3, ...]", "dump.h5", "/q", 3},
           {"dump.h5[:, 4]", "dump.h5", "/", 2},
           {"dump.h5:/x:y", "dump.h5", "/x:y", 0},
           {"dump.h5:/x:y[1:2]", "dump.h5", "/x:y", 1},
           {"a", "a", "/", 0},
           {"a:c", "a", "/c", 0},
           {"a:b", "a:b", "/", 0},
           {"a:b:c", "a:b", "/c", 0},
           {"w[1].h5", "w[1].h5", "/", 0},
           {"w[1].h5:/w[1]", "w[1].h5", "/w", 1},
           {"nothing.h5:/q[0]", "nothing.h5:/q[0]", "/", 0},
       }) {
    CAPTURE(c.text);
    const Address address = parse_address(folder / c.text);
    CHECK(address.text == folder / c.text);
    CHECK(address.file == folder / c.file);
    CHECK(address.path == c.path);
    CHECK(address.selection.size() == c.items);
  }
  CHECK(parse_address("-").file == "-");
  CHECK(parse_address("-:/q").path == "/q");
  CHECK(parse_address("-:/q[0]").selection.size() == 1);
  // A folder is not a file.
  CHECK(parse_address(folder.path() + ":/q").file == folder.path() + ":/q");
}

TEST_CASE("A malformed selection is a usage error that names the address") {
  for (const char* selection : {"[]", "[a]", "[1.5]", "[1:2:3:4]", "[::0]", "[::-1]", "[...,...]",
                                "[,]", "[1,,2]", "[+]", "[-]", "]"}) {
    CAPTURE(selection);
    const std::string text = std::string("-:/q") + selection;
    const Error error = thrown_error([&] { parse_address(text); });
    CHECK(error.failure() == Failure::usage);
    CHECK(contains(error.what(), text));
  }
}

TEST_CASE("Ranges of one axis visit what Python's slices visit") {
  const std::vector<std::optional<Index>> bounds = {{}, -9, -4, -3, -1, 0, 1, 2, 4, 9};
  for (Index length = 0; length <= 5; ++length) {
    for (const auto& start : bounds) {
      for (const auto& stop : bounds) {
        for (const Index step : {1, 2, 3, 7}) {
          const SliceItem item{SliceItem::Kind::range, start, stop, step};
          const Hyperslab slab = resolve({item}, {length}, "x");
          CHECK(positions_of(slab, 0) == visited(item, length));
          CHECK(slab.shape == slab.count);
        }
      }
    }
  }
}

TEST_CASE(
    "Integers drop their axis, an ellipsis stands for the remaining axes, missing items are full") {
  CHECK(resolved("[1]", {2, 3, 4}).shape == Shape{3, 4});
  CHECK(resolved("[-1]", {2, 3, 4}).start == Shape{1, 0, 0});
  CHECK(resolved("[..., 1]", {2, 3, 4}).source_axis == std::vector<std::size_t>{0, 1});
  CHECK(resolved("[\u2026, 1]", {2, 3, 4}).shape == Shape{2, 3});
  CHECK(resolved("[0, ..., 1]", {2, 3, 4}).shape == Shape{3});
  CHECK(resolved("[0, 1, 2]", {2, 3, 4}).shape == Shape{});
  CHECK(resolved("[0, ..., 1, 2]", {2, 3, 4}).shape == Shape{});
  CHECK(resolved("[...]", {}).shape == Shape{});
  CHECK(resolved("", {2, 3}).shape == Shape{2, 3});
  CHECK(resolved("[:, 1:3,]", {2, 3, 4}).shape == Shape{2, 2, 4});
}

TEST_CASE("Numbers of any size are clipped, not wrapped around") {
  const std::string huge = "99999999999999999999999999";
  CHECK(resolved("[:" + huge + "]", {7}).shape == Shape{7});
  CHECK(resolved("[-" + huge + ":]", {7}).shape == Shape{7});
  CHECK(resolved("[2::" + huge + "]", {7}).count == Shape{1});
  CHECK(resolved("[" + huge + ":]", {7}).shape == Shape{0});
  constexpr Index most = std::numeric_limits<Index>::max();
  CHECK(resolved("[1:" + huge + ":2]", {most}).shape == Shape{most / 2});
}

TEST_CASE("A selection that does not fit the shape is an input error") {
  struct Case {
    const char* selection;
    const char* says;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"[2]", "position 2 is out of range for axis 0 of length 2"},
           {"[0, -4]", "position -4 is out of range for axis 1 of length 3"},
           {"[99999999999999999999]", "is out of range for axis 0"},
           {"[0, 0, 0]", "the selection has 3 items, the dataset has shape (2, 3)"},
           {"[0, ..., 0, 0]", "the selection has 3 items"},
       }) {
    CAPTURE(c.selection);
    const Error error = thrown_error([&] { resolved(c.selection, {2, 3}); });
    CHECK(error.failure() == Failure::input);
    CHECK(contains(error.what(), c.says));
  }
}
