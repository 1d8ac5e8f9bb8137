#include "common/outputs/block_layout.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>

#include <fmt/format.h>

#include "attnkit/error.hpp"

namespace attn::tools {

std::vector<std::size_t> BlockLayout::own_axes() const {
  std::vector<std::size_t> own;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) own.push_back(axis);
  }
  return own;
}

Shape BlockLayout::positions() const {
  Shape lengths;
  for (const std::size_t axis : axes) lengths.push_back(shape[axis]);
  return lengths;
}

Shape BlockLayout::own() const {
  Shape lengths;
  for (const std::size_t axis : own_axes()) lengths.push_back(shape[axis]);
  return lengths;
}

BlockBox box_of(const BlockLayout& layout, Index block) {
  BlockBox box{Shape(layout.shape.size(), 0), layout.shape};
  const Shape position = unravel(block, layout.positions());
  for (std::size_t n = 0; n < position.size(); ++n) {
    box.start[layout.axes[n]] = position[n];
    box.count[layout.axes[n]] = 1;
  }
  return box;
}

std::vector<std::size_t> first_axes(std::size_t count) {
  std::vector<std::size_t> axes(count);
  std::iota(axes.begin(), axes.end(), std::size_t{0});
  return axes;
}

std::string ranges_text(const std::vector<Index>& numbers) {
  std::string text;
  for (std::size_t n = 0; n < numbers.size();) {
    std::size_t end = n + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", numbers[n], numbers[end - 1] + 1);
    n = end;
  }
  return text;
}

namespace {

// Calls `take` with the two ends of each range.
template <class Take>
void for_each_range(const std::string& text, Index limit, const Take& take) {
  Index least = 0;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto refuse = [&]() -> Error {
    return Error(Failure::input, "'" + text + "' is no list of ranges");
  };
  const auto number = [&] {
    Index value = 0;
    const auto found = std::from_chars(at, end, value);
    if (found.ec != std::errc()) throw refuse();
    at = found.ptr;
    return value;
  };
  while (at != end) {
    const Index first = number();
    if (at == end || *at++ != ':') throw refuse();
    const Index last = number();
    if (first < least || last <= first || last > limit) throw refuse();
    take(first, last);
    least = last;
    if (at != end && (*at++ != ',' || at == end)) throw refuse();
  }
}

}  // namespace

Index count_in_ranges(const std::string& text, Index limit) {
  Index count = 0;
  for_each_range(text, limit, [&](Index first, Index last) { count += last - first; });
  return count;
}

std::vector<Index> parse_ranges(const std::string& text, Index limit) {
  std::vector<Index> numbers;
  for_each_range(text, limit, [&](Index first, Index last) {
    for (Index n = first; n < last; ++n) numbers.push_back(n);
  });
  return numbers;
}

}  // namespace attn::tools
