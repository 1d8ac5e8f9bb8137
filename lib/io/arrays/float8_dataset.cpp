#include "io/arrays/float8_dataset.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "tensor/buffer.hpp"
#include "tensor/half.hpp"
#include "tensor/pieces.hpp"

namespace attn::io {
namespace {

constexpr const char* e4m3 = "F8_E4M3";
constexpr const char* e5m2 = "F8_E5M2";

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

/// The scales as numbers, which are read when they are first needed, and which one an element has.
class Float8Dataset::Scales {
 public:
  Scales(Float8Scales scales, const Shape& shape, const std::string& address)
      : scales_(std::make_unique<ArrayDataset>(scales.array, "", scales.address,
                                               std::vector<SliceItem>{})) {
    const auto refuse = [&](const std::string& expected) {
      throw Error(Failure::input,
                  fmt::format("{} has shape {} of {}, expected {} for {} of shape {}",
                              scales.address, to_string(scales.array.shape),
                              scales.array.description, expected, address, to_string(shape)));
    };
    if (!is_floating(scales_->dtype)) refuse("floating-point scales");
    Shape counts = scales.array.shape;
    const bool one = element_count(counts) == 1;
    if (one || counts.size() < shape.size()) counts.resize(shape.size(), 1);
    bool fits = counts.size() == shape.size();
    for (std::size_t axis = 0; fits && axis < shape.size(); ++axis) {
      constexpr Index usual = 128;
      const Index n = std::max<Index>(shape[axis], 1);
      const Index number = one ? 1 : counts[axis];
      if (number == 1) {
        blocks_.push_back(n);
      } else if (number == n || number == shape[axis]) {
        blocks_.push_back(1);
      } else {
        fits = number == (n + usual - 1) / usual;
        blocks_.push_back(usual);
      }
      counts[axis] = number;
    }
    // As many scales as numbers would be held in memory.
    const bool each = !shape.empty() && shape.back() > 1 && counts.back() == shape.back();
    if (!fits || (each && element_count(counts) != shape.back())) {
      refuse("one scale, one for each row, or one for each 128 numbers");
    }
    steps_.resize(shape.size(), 1);
    for (std::size_t axis = shape.size(); axis-- > 1;) {
      steps_[axis - 1] = steps_[axis] * counts[axis];
    }
  }

  const float* values() const {
    std::call_once(read_, [&] {
      const Index count = element_count(scales_->shape);
      numbers_.resize(static_cast<std::size_t>(count));
      read_floats(*scales_, Shape(scales_->shape.size(), 0), scales_->shape, numbers_.data());
    });
    return numbers_.data();
  }

  /// What an element at `position` of an axis adds to the index of its scale.
  Index at(std::size_t axis, Index position) const {
    return position / blocks_[axis] * steps_[axis];
  }

 private:
  std::unique_ptr<const ArrayDataset> scales_;
  Shape blocks_;
  Shape steps_;
  mutable std::once_flag read_;
  mutable std::vector<float> numbers_;
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
    scales_ = std::make_unique<const Scales>(std::move(*scales), array.shape, address_text);
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
  const float* const scales = scales_ ? scales_->values() : nullptr;
  const auto place = [&](std::size_t axis, Index at) {
    const std::size_t source = slab_.source_axis[axis];
    return scales_->at(source, slab_.start[source] + at * slab_.step[source]);
  };
  // Axes that the selection dropped have one position.
  Index dropped = 0;
  if (scales_) {
    for (std::size_t source = 0; source < slab_.start.size(); ++source) {
      const auto& kept = slab_.source_axis;
      if (std::find(kept.begin(), kept.end(), source) == kept.end()) {
        dropped += scales_->at(source, slab_.start[source]);
      }
    }
  }
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
    const Index width = rank == 0 ? 1 : piece.count.back();
    for (Index i = 0; i < piece.size; i += width) {
      Index scale = dropped;
      const Shape index = unravel(i, piece.count);
      for (std::size_t axis = 0; axis + 1 < rank; ++axis) {
        scale += place(axis, first[axis] + index[axis]);
      }
      for (Index j = 0; j < width; ++j) {
        const Index at = rank == 0 ? scale : scale + place(rank - 1, first[rank - 1] + j);
        // Exact in float64, so that float32 rounds once.
        to[i + j] = static_cast<float>(static_cast<double>(values_[bits.data()[i + j]]) *
                                       static_cast<double>(scales[at]));
      }
    }
  });
}

}  // namespace attn::io
