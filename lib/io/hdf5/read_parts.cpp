#include "io/hdf5/read_parts.hpp"

#include <algorithm>
#include <vector>

namespace attn::io {
namespace {

constexpr Index most_bytes = Index{64} << 20;

Index chunk_at(const Parts& parts, std::size_t axis, Index element) {
  return (parts.first[axis] + element * parts.step[axis]) / parts.chunk[axis];
}

/// The number of chunks from the first to the last that the part touches.
Index chunks_along(const Parts& parts, const Part& part, std::size_t axis) {
  if (part.count[axis] == 0) return 0;
  return chunk_at(parts, axis, part.start[axis] + part.count[axis] - 1) -
         chunk_at(parts, axis, part.start[axis]) + 1;
}

/// The number of elements in the first half along `axis`; 0 if the axis must not be cut.
Index half(const Parts& parts, const Part& part, std::size_t axis) {
  if (parts.chunk.empty()) return part.count[axis] / 2;
  const Index chunks = chunks_along(parts, part, axis);
  if (chunks < 2) return 0;
  // The first element in or after the middle chunk.
  const Index middle = (chunk_at(parts, axis, part.start[axis]) + chunks / 2) * parts.chunk[axis];
  const Index step = parts.step[axis];
  return (middle - parts.first[axis] + step - 1) / step - part.start[axis];
}

}  // namespace

void for_each_part(const Parts& parts, const Shape& count,
                   const std::function<void(const Part&)>& visit) {
  // Last in, first out, so the first part is visited first.
  std::vector<Part> waiting{Part{Shape(count.size(), 0), count}};
  while (!waiting.empty()) {
    Part part = waiting.back();
    waiting.pop_back();
    if (element_count(part.count) > most_bytes / std::max<Index>(parts.element_size, 1)) {
      std::size_t axis = 0;
      Index first = 0;
      while (axis < count.size() && (first = half(parts, part, axis)) == 0) ++axis;
      if (first > 0) {
        Part rest = part;
        rest.start[axis] += first;
        rest.count[axis] -= first;
        part.count[axis] = first;
        waiting.push_back(rest);
        waiting.push_back(part);
        continue;
      }
    }
    visit(part);
  }
}

}  // namespace attn::io
