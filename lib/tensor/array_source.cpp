#include "tensor/array_source.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "attnkit/error.hpp"
#include "tensor/buffer.hpp"
#include "tensor/convert.hpp"
#include "tensor/pieces.hpp"

namespace attn {
namespace {

using Impl = ArraySource::Impl;

[[noreturn]] void refuse_type(const Impl& source, const char* expected) {
  const bool named = is_floating(source.dtype) || is_integral(source.dtype);
  throw Error(Failure::input, source.address + (named ? " is " : " holds ") + source.description +
                                  ", expected " + expected);
}

template <class Out>
constexpr const char* expected_by() {
  return std::is_floating_point_v<Out> ? "numbers" : "integers or bool";
}

Shape sum(const Shape& a, const Shape& b) {
  Shape result = a;
  for (std::size_t axis = 0; axis < a.size(); ++axis) result[axis] += b[axis];
  return result;
}

template <class Stored>
void check_range(const Impl& source, const Shape& start, const Piece& piece, const Stored* values) {
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const auto* const end = values + piece.size;
  const auto* found = std::find_if(values, end, [](Stored v) { return v > most; });
  if (found == end) return;
  const Shape index = sum(start, sum(piece.start, unravel(found - values, piece.count)));
  throw Error(Failure::input, source.address + " has " + std::to_string(*found) + " at " +
                                  index_text(index) +
                                  ", which does not fit into a signed integer of 64 bits");
}

template <class Stored, class Out>
void read_through_buffer(const Impl& source, const Shape& start, const Shape& count, Out* out) {
  const Index limit = piece_elements(sizeof(Stored));
  const Buffer<Stored> buffer(std::min(limit, element_count(count)));
  for_each_piece(count, limit, [&](const Piece& piece) {
    source.read_stored(sum(start, piece.start), piece.count, buffer.data());
    if constexpr (std::is_same_v<Stored, std::uint64_t> && std::is_same_v<Out, std::int64_t>) {
      check_range(source, start, piece, buffer.data());
    }
    convert(buffer.data(), piece.size, out + piece.offset);
  });
}

template <class Stored, class Out>
void read_stored_as(const Impl& source, const Shape& start, const Shape& count, Out* out) {
  if constexpr (!convertible<Stored, Out>) {
    refuse_type(source, expected_by<Out>());
  } else if constexpr (std::is_same_v<Stored, Out> && !std::is_same_v<Out, std::uint8_t>) {
    source.read_stored(start, count, out);
  } else {
    read_through_buffer<Stored>(source, start, count, out);
  }
}

template <class Out>
void read_as(const Impl& source, const Shape& start, const Shape& count, Out* out) {
  require_block(start, count, source.shape, source.address);
  if (source.dtype == DType::string || source.dtype == DType::other) {
    refuse_type(source, expected_by<Out>());
  }
  if (element_count(count) == 0) return;
  switch (source.dtype) {
    case DType::f16:
      return read_stored_as<Half>(source, start, count, out);
    case DType::bf16:
      return read_stored_as<Bfloat16>(source, start, count, out);
    case DType::f32:
      return read_stored_as<float>(source, start, count, out);
    case DType::f64:
      return read_stored_as<double>(source, start, count, out);
    case DType::i8:
      return read_stored_as<std::int8_t>(source, start, count, out);
    case DType::i16:
      return read_stored_as<std::int16_t>(source, start, count, out);
    case DType::i32:
      return read_stored_as<std::int32_t>(source, start, count, out);
    case DType::i64:
      return read_stored_as<std::int64_t>(source, start, count, out);
    case DType::u8:
    case DType::boolean:
      return read_stored_as<std::uint8_t>(source, start, count, out);
    case DType::u16:
      return read_stored_as<std::uint16_t>(source, start, count, out);
    case DType::u32:
      return read_stored_as<std::uint32_t>(source, start, count, out);
    case DType::u64:
      return read_stored_as<std::uint64_t>(source, start, count, out);
    default:
      refuse_type(source, expected_by<Out>());
  }
}

}  // namespace

ArraySource::ArraySource(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

const std::string& ArraySource::name() const { return impl_->name; }
const std::string& ArraySource::address() const { return impl_->address; }
const Shape& ArraySource::shape() const { return impl_->shape; }
DType ArraySource::dtype() const { return impl_->dtype; }
const Shape* ArraySource::strides() const { return impl_->strides(); }
std::string ArraySource::type() const { return impl_->description; }

void ArraySource::read(const Shape& start, const Shape& count, float* out) const {
  read_as(*impl_, start, count, out);
}
void ArraySource::read(const Shape& start, const Shape& count, double* out) const {
  read_as(*impl_, start, count, out);
}
void ArraySource::read(const Shape& start, const Shape& count, std::uint8_t* out) const {
  read_as(*impl_, start, count, out);
}
void ArraySource::read(const Shape& start, const Shape& count, std::int64_t* out) const {
  read_as(*impl_, start, count, out);
}

void ArraySource::read_stored(const Shape& start, const Shape& count, void* out) const {
  require_block(start, count, impl_->shape, impl_->address);
  if (impl_->dtype == DType::string || impl_->dtype == DType::other) {
    refuse_type(*impl_, "numbers");
  }
  if (element_count(count) > 0) impl_->read_stored(start, count, out);
}

std::int64_t ArraySource::bytes_at_once() const { return impl_->bytes_at_once(); }

void read_floats(const ArraySource::Impl& source, const Shape& start, const Shape& count,
                 float* out) {
  read_as(source, start, count, out);
}

std::vector<std::string> ArraySource::read_strings() const {
  if (impl_->dtype != DType::string) refuse_type(*impl_, "strings");
  if (element_count(impl_->shape) == 0) return {};
  return impl_->read_strings();
}

}  // namespace attn
