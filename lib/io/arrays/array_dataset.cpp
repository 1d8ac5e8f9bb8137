#include "io/arrays/array_dataset.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "attnkit/error.hpp"
#include "io/arrays/strided_read.hpp"
#include "tensor/buffer.hpp"

namespace attn::io {
namespace {

template <class Word, class Swap>
void swap_words(void* data, Index count, const Swap& swap) {
  auto* words = static_cast<char*>(data);
  for (Index i = 0; i < count; ++i) {
    Word word;
    std::memcpy(&word, words + i * static_cast<Index>(sizeof(Word)), sizeof(Word));
    word = swap(word);
    std::memcpy(words + i * static_cast<Index>(sizeof(Word)), &word, sizeof(Word));
  }
}

void swap_bytes(void* data, std::size_t size, Index count) {
  switch (size) {
    case 2:
      return swap_words<std::uint16_t>(data, count, [](auto w) { return __builtin_bswap16(w); });
    case 4:
      return swap_words<std::uint32_t>(data, count, [](auto w) { return __builtin_bswap32(w); });
    case 8:
      return swap_words<std::uint64_t>(data, count, [](auto w) { return __builtin_bswap64(w); });
    default:
      return;
  }
}

/// Bytes from one element to the next along each axis.
Shape strides_of(const StoredArray& array) {
  Shape strides(array.shape.size(), 0);
  // Without elements the products may not fit, and are not needed.
  if (element_count(array.shape) == 0) return strides;
  auto stride = static_cast<Index>(array.element_size);
  for (std::size_t i = 0; i < strides.size(); ++i) {
    const std::size_t axis = array.fortran ? i : strides.size() - 1 - i;
    strides[axis] = stride;
    stride *= array.shape[axis];
  }
  return strides;
}

void append_utf8(std::uint32_t point, const std::string& address, std::string& text) {
  if (point >= 0x110000 || (point >= 0xd800 && point < 0xe000)) {
    throw Error(Failure::input, address + " holds a string with an invalid character");
  }
  const auto tail = [&](int shift) { text += static_cast<char>(0x80 | (point >> shift & 0x3f)); };
  if (point < 0x80) {
    text += static_cast<char>(point);
  } else if (point < 0x800) {
    text += static_cast<char>(0xc0 | point >> 6);
    tail(0);
  } else if (point < 0x10000) {
    text += static_cast<char>(0xe0 | point >> 12);
    tail(6);
    tail(0);
  } else {
    text += static_cast<char>(0xf0 | point >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

/// The contents of a padded string of code points, in UTF-8.
std::string text_of(const char* data, std::size_t size, const std::string& address) {
  std::vector<std::uint32_t> points(size / 4);
  std::memcpy(points.data(), data, points.size() * 4);
  while (!points.empty() && points.back() == 0) points.pop_back();
  std::string text;
  for (const std::uint32_t point : points) append_utf8(point, address, text);
  return text;
}

}  // namespace

ArrayDataset::ArrayDataset(StoredArray array, std::string dataset_name, std::string address_text,
                           const std::vector<SliceItem>& selection)
    : array_(std::move(array)) {
  name = std::move(dataset_name);
  address = std::move(address_text);
  dtype = array_.dtype;
  description = array_.description;
  slab_ = resolve(selection, array_.shape, address);
  shape = slab_.shape;
  strides_ = strides_of(array_);
}

void ArrayDataset::read_elements(const Shape& start, const Shape& count, void* out) const {
  const std::size_t rank = array_.shape.size();
  Index offset = array_.offset;
  std::vector<StridedAxis> axes(rank, StridedAxis{1, 1, 1});
  for (std::size_t axis = 0; axis < rank; ++axis) offset += slab_.start[axis] * strides_[axis];
  Index out_step = 1;
  for (std::size_t axis = count.size(); axis-- > 0;) {
    const std::size_t source = slab_.source_axis[axis];
    offset += start[axis] * slab_.step[source] * strides_[source];
    // A step may be as long as 64 bits allow if only one element is taken.
    const Index step = count[axis] > 1 ? slab_.step[source] * strides_[source] : 1;
    axes[source] = {count[axis], step, out_step};
    out_step *= count[axis];
  }
  if (array_.fortran) std::reverse(axes.begin(), axes.end());
  read_strided(*array_.bytes, offset, axes, array_.element_size, out);
}

void ArrayDataset::read_stored(const Shape& start, const Shape& count, void* out) const {
  read_elements(start, count, out);
  const Index total = element_count(count);
  if (array_.swap_bytes) swap_bytes(out, array_.element_size, total);
  if (dtype == DType::boolean) {
    auto* values = static_cast<std::uint8_t*>(out);
    for (Index i = 0; i < total; ++i) values[i] = values[i] != 0 ? 1 : 0;
  }
}

std::vector<std::string> ArrayDataset::read_strings() const {
  const Index total = element_count(shape);
  const std::size_t size = array_.element_size;
  const Index bytes = array_bytes(shape, size, address);
  const Buffer<char> buffer(bytes);
  read_elements(Shape(shape.size(), 0), shape, buffer.data());
  const bool ucs4 = array_.text == StoredArray::Text::ucs4;
  if (ucs4 && array_.swap_bytes) swap_bytes(buffer.data(), 4, bytes / 4);
  std::vector<std::string> values;
  for (Index i = 0; i < total; ++i) {
    const char* const at = buffer.data() + i * static_cast<Index>(size);
    if (ucs4) {
      values.push_back(text_of(at, size, address));
    } else {
      const std::string padded(at, size);
      values.push_back(padded.substr(0, padded.find_last_not_of('\0') + 1));
    }
  }
  return values;
}

}  // namespace attn::io
