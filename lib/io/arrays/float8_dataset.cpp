#include "io/arrays/float8_dataset.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "io/arrays/scale_blocks.hpp"
#include "tensor/buffer.hpp"
#include "tensor/half.hpp"
#include "tensor/pieces.hpp"

namespace attn::io {
namespace {

constexpr const char* e4m3 = "F8_E4M3";
constexpr const char* e5m2 = "F8_E5M2";
constexpr const char* e8m0 = "F8_E8M0";

using Values = std::array<float, 256>;

Values e4m3_values() {
  Values values{};
  for (int bits = 0; bits < 256; ++bits) {
    const int exponent = bits >> 3 & 15;
    const int fraction = bits & 7;
    float value = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -9)
                                : std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
    if (exponent == 15 && fraction == 7) value = std::numeric_limits<float>::quiet_NaN();
    values[static_cast<std::size_t>(bits)] = bits < 128 ? value : -value;
  }
  return values;
}

Values e5m2_values() {
  Values values{};
  // The upper half of an IEEE half.
  for (std::size_t bits = 0; bits < 256; ++bits) {
    values[bits] = widen_half(static_cast<std::uint16_t>(bits << 8));
  }
  return values;
}

const Values& values_of(const StoredArray& array) {
  static const Values of_e4m3 = e4m3_values();
  static const Values of_e5m2 = e5m2_values();
  return array.description == e4m3 ? of_e4m3 : of_e5m2;
}

StoredArray as_bytes(StoredArray array) {
  array.dtype = DType::u8;
  array.element_size = 1;
  return array;
}

}  // namespace

/// The scales, and which one an element has.
class Float8Dataset::Scales {
 public:
  Scales(const Float8Scales& scales, const Shape& shape, const std::string& address)
      : power_of_two_(scales.array.description == e8m0 || scales.array.dtype == DType::u8),
        scales_(
            std::make_shared<ArrayDataset>(power_of_two_ ? as_bytes(scales.array) : scales.array,
                                           "", scales.address, std::vector<SliceItem>{})) {
    const auto refuse = [&](const std::string& expected, const std::string& hint = {}) {
      throw Error(Failure::input,
                  fmt::format("{} has shape {} of {}, expected {} for {} of shape {}",
                              scales.address, to_string(scales.array.shape),
                              scales.array.description, expected, address, to_string(shape)),
                  hint);
    };
    if (!power_of_two_ && !is_floating(scales_.dtype())) refuse("floating-point scales or F8_E8M0");
    Shape counts = scales.array.shape;
    if (element_count(counts) == 1) counts = {};
    if (counts.size() < shape.size()) counts.resize(shape.size(), 1);
    bool fits = counts.size() == shape.size();
    std::optional<Shape> stated;
    for (std::size_t axis = 0; fits && axis < shape.size(); ++axis) {
      if (!stated && counts[axis] != 1 && counts[axis] != shape[axis]) {
        stated = scales.stated_blocks();
      }
      const std::size_t behind = shape.size() - axis;  // axes from this one on
      const bool known = stated && behind <= stated->size();
      blocks_.push_back(scale_block(shape[axis], counts[axis],
                                    known ? (*stated)[stated->size() - behind] : 0,
                                    power_of_two_ ? Shape{128, 32} : Shape{128}));
      fits = blocks_.back() > 0;
    }
    if (!fits && stated && !stated->empty()) {
      refuse(fmt::format("one scale for each block of {} numbers, as config.json says",
                         fmt::join(*stated, " x ")));
    }
    // Scales of single numbers are no format.
    const bool each = !shape.empty() && shape.back() > 1 && counts.back() == shape.back();
    if (!fits || (each && element_count(counts) != shape.back())) {
      refuse("one scale, one for each row, or one for each block of numbers",
             "quantization_config.weight_block_size of a config.json beside the file can say the "
             "size of blocks");
    }
  }

  /// The scales of the elements between two positions, both included.
  struct Part {
    std::vector<double> numbers;
    Shape first;  // scale, per axis of the array
    Shape steps;  // from scale to scale
  };
  void read(const Shape& from, const Shape& to, Part& part) const {
    Shape count(from.size(), 1);
    part.first.resize(from.size());
    part.steps = Shape(from.size(), 1);
    for (std::size_t axis = from.size(); axis-- > 0;) {
      part.first[axis] = from[axis] / blocks_[axis];
      count[axis] = to[axis] / blocks_[axis] - part.first[axis] + 1;
      if (axis > 0) part.steps[axis - 1] = part.steps[axis] * count[axis];
    }
    part.numbers.resize(static_cast<std::size_t>(element_count(count)));
    // The stored axes may be fewer, or all have length 1.
    const std::size_t rank = scales_.shape().size();
    Shape start = part.first;
    start.resize(rank, 0);
    count.resize(rank, 1);
    scales_.read(start, count, part.numbers.data());
    if (!power_of_two_) return;
    for (double& number : part.numbers) {
      if (number == 255) {
        const Shape index = unravel(&number - part.numbers.data(), count);
        Shape at = start;
        for (std::size_t axis = 0; axis < rank; ++axis) at[axis] += index[axis];
        throw Error(Failure::input, fmt::format("{}[{}] is NaN (255), expected a power of two",
                                                scales_.address(), fmt::join(at, ", ")));
      }
      number = std::ldexp(1.0, static_cast<int>(number) - 127);
    }
  }

  /// What an element at `position` of an axis adds to the index of its scale.
  Index at(const Part& part, std::size_t axis, Index position) const {
    return (position / blocks_[axis] - part.first[axis]) * part.steps[axis];
  }

 private:
  bool power_of_two_;
  ArraySource scales_;
  Shape blocks_;
};

bool Float8Dataset::reads(const StoredArray& array) {
  return array.description == e4m3 || array.description == e5m2;
}

Float8Dataset::Float8Dataset(StoredArray array, std::optional<Float8Scales> scales,
                             std::string dataset_name, std::string address_text,
                             const std::vector<SliceItem>& selection)
    : bits_(as_bytes(array), dataset_name, address_text, selection),
      values_(values_of(array).data()),
      slab_(resolve(selection, array.shape, address_text)) {
  if (scales) {
    scales_ = std::make_unique<const Scales>(*scales, array.shape, address_text);
  }
  name = std::move(dataset_name);
  address = std::move(address_text);
  dtype = DType::f32;
  description = array.description + (scales_ ? " times scales" : "");
  shape = bits_.shape;
}

Float8Dataset::~Float8Dataset() = default;

void Float8Dataset::read_stored(const Shape& start, const Shape& count, void* out) const {
  const Index limit = piece_elements(1);
  const Buffer<std::uint8_t> bits(std::min(limit, element_count(count)));
  auto* const numbers = static_cast<float*>(out);
  Scales::Part scales;
  for_each_piece(count, limit, [&](const Piece& piece) {
    Shape first = start;
    for (std::size_t axis = 0; axis < first.size(); ++axis) first[axis] += piece.start[axis];
    bits_.read_stored(first, piece.count, bits.data());
    float* const to = numbers + piece.offset;
    if (!scales_) {
      for (Index i = 0; i < piece.size; ++i) to[i] = values_[bits.data()[i]];
      return;
    }
    const std::size_t rank = piece.count.size();
    const auto position = [&](std::size_t axis, Index at) {
      const std::size_t source = slab_.source_axis[axis];
      return slab_.start[source] + (first[axis] + at) * slab_.step[source];
    };
    // Axes that the selection dropped have one position.
    Shape begin = slab_.start;
    Shape last = slab_.start;
    for (std::size_t axis = 0; axis < rank; ++axis) {
      begin[slab_.source_axis[axis]] = position(axis, 0);
      last[slab_.source_axis[axis]] = position(axis, piece.count[axis] - 1);
    }
    scales_->read(begin, last, scales);
    const auto place = [&](std::size_t axis, Index at) {
      return scales_->at(scales, slab_.source_axis[axis], position(axis, at));
    };
    const Index width = rank == 0 ? 1 : piece.count.back();
    for (Index i = 0; i < piece.size; i += width) {
      Index scale = 0;
      const Shape index = unravel(i, piece.count);
      for (std::size_t axis = 0; axis + 1 < rank; ++axis) {
        scale += place(axis, index[axis]);
      }
      for (Index j = 0; j < width; ++j) {
        const Index at = rank == 0 ? scale : scale + place(rank - 1, j);
        // Exact in float64, so that float32 rounds once.
        to[i + j] = static_cast<float>(static_cast<double>(values_[bits.data()[i + j]]) *
                                       scales.numbers[static_cast<std::size_t>(at)]);
      }
    }
  });
}

}  // namespace attn::io
