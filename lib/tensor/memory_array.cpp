#include "tensor/memory_array.hpp"

#include <cstring>
#include <stdexcept>

namespace attn {

MemoryArray::MemoryArray(const std::string& operand, const Shape& lengths, DType type) {
  name = address = operand;
  shape = lengths;
  dtype = type;
  description = attn::name(type);
}

void MemoryArray::bind(const void* numbers, const Shape& strides) {
  require_strides(name, shape, strides);
  numbers_ = numbers;
  strides_ = is_dense(shape, strides) ? nullptr : &strides;
}

void MemoryArray::read_stored(const Shape& start, const Shape& count, void* out) const {
  if (numbers_ == nullptr) throw std::logic_error(name + " is not bound to memory");
  const std::size_t size = size_of(dtype);
  // Row by row of the last axis.
  const Index row = count.empty() ? 1 : count.back();
  const Index rows = row == 0 ? 0 : element_count(count) / row;
  const Shape outer = leading_axes(count, count.empty() ? 0 : 1);
  auto* to = static_cast<std::byte*>(out);
  for (Index n = 0; n < rows; ++n) {
    Shape at = unravel(n, outer);
    if (!count.empty()) at.push_back(0);
    Index first = 0;
    for (std::size_t axis = 0; axis < at.size(); ++axis) {
      at[axis] += start[axis];
      if (strides_ != nullptr) first += at[axis] * (*strides_)[axis];
    }
    if (strides_ == nullptr) first = ravel(at, shape);
    const std::size_t bytes = static_cast<std::size_t>(row) * size;
    std::memcpy(to,
                static_cast<const std::byte*>(numbers_) + static_cast<std::size_t>(first) * size,
                bytes);
    to += bytes;
  }
}

}  // namespace attn
