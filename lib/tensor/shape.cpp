#include "tensor/shape.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "attnkit/error.hpp"

namespace attn {
namespace {

std::string listed(const char* open, const Shape& numbers, const char* close) {
  std::string text = open;
  for (std::size_t n = 0; n < numbers.size(); ++n) {
    if (n > 0) text += ", ";
    text += std::to_string(numbers[n]);
  }
  return text + close;
}

}  // namespace

void Shape::refuse(std::size_t axes) {
  throw Error(Failure::input, "an array has " + std::to_string(axes) + " axes, at most " +
                                  std::to_string(most_axes) + " are supported");
}

Index element_count(const Shape& shape) {
  Index count = 1;
  for (const Index axis : shape) {
    // Checked first: an axis of length 0 makes the product 0 even if the others overflow.
    if (axis == 0) return 0;
  }
  for (const Index axis : shape) {
    if (axis < 0 || __builtin_mul_overflow(count, axis, &count)) {
      throw Error(Failure::input, "shape " + to_string(shape) + " has too many elements");
    }
  }
  return count;
}

Shape leading_axes(const Shape& shape, std::size_t trailing) {
  return Shape(shape.begin(), shape.end() - trailing);
}

Shape join(const Shape& leading, const Shape& trailing) {
  Shape joined = leading;
  joined.insert(joined.end(), trailing.begin(), trailing.end());
  return joined;
}

std::string to_string(const Shape& shape) { return listed("(", shape, ")"); }

std::string index_text(const Shape& index) { return listed("[", index, "]"); }

bool broadcast(const Shape& a, const Shape& b, Shape& out) {
  Shape result(std::max(a.size(), b.size()), 1);
  for (std::size_t back = 1; back <= result.size(); ++back) {
    const Index from_a = back <= a.size() ? a[a.size() - back] : 1;
    const Index from_b = back <= b.size() ? b[b.size() - back] : 1;
    if (from_a != from_b && from_a != 1 && from_b != 1) return false;
    result[result.size() - back] = from_a == 1 ? from_b : from_a;
  }
  out = result;
  return true;
}

Shape unravel(Index flat, const Shape& shape) {
  Shape index(shape.size(), 0);
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    index[axis] = flat % shape[axis];
    flat /= shape[axis];
  }
  return index;
}

Index ravel(const Shape& index, const Shape& shape) {
  Index flat = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) flat = flat * shape[axis] + index[axis];
  return flat;
}

Index block_offset(Index block, const Shape& leading, const Shape& strides) {
  Index offset = 0;
  for (std::size_t axis = leading.size(); axis-- > 0; block /= leading[axis]) {
    offset += block % leading[axis] * strides[axis];
  }
  return offset;
}

bool is_dense(const Shape& shape, const Shape& strides) {
  if (strides.empty() || element_count(shape) == 0) return true;
  Index dense = 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] != 1 && strides[axis] != dense) return false;
    dense *= shape[axis];
  }
  return true;
}

void require_strides(const std::string& name, const Shape& shape, const Shape& strides) {
  if (strides.empty()) return;
  const bool positive =
      std::all_of(strides.begin(), strides.end(), [](Index stride) { return stride >= 0; });
  const std::size_t axes = shape.size();
  if (strides.size() == axes && positive) {
    const bool last = strides[axes - 1] == 1 || shape[axes - 1] <= 1;
    const bool apart = axes < 2 || shape[axes - 2] <= 1 || strides[axes - 2] >= shape[axes - 1];
    if (last && apart) return;
  }
  throw Error(Failure::input,
              name + " has strides " + to_string(strides) +
                  ", expected one for each axis, 0 or more, 1 for the last, and rows "
                  "that do not overlap");
}

void require_places(const std::string& name, const Shape& shape, const Shape& strides) {
  require_strides(name, shape, strides);
  std::vector<std::pair<Index, Index>> axes;
  for (std::size_t axis = 0; axis < strides.size(); ++axis) {
    if (shape[axis] > 1) axes.emplace_back(strides[axis], shape[axis]);
  }
  std::sort(axes.begin(), axes.end());
  // Along the axes in the order of their strides, every step goes past all elements of those
  // before.
  Index past = 1;
  for (const auto& [stride, length] : axes) {
    if (stride < past) {
      throw Error(Failure::input, name + " has strides " + to_string(strides) +
                                      ", expected a place of its own for each element");
    }
    past = stride * length;
  }
}

void require_dense(const std::string& name, const Shape& shape, const Shape& strides) {
  require_strides(name, shape, strides);
  if (is_dense(shape, strides)) return;
  throw Error(Failure::input,
              name + " has strides " + to_string(strides) + ", expected a dense array");
}

}  // namespace attn
