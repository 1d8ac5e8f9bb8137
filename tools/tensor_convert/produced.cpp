#include "tensor_convert/produced.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "tensor/buffer.hpp"
#include "tensor/convert.hpp"
#include "tensor/narrow.hpp"
#include "tensor/pieces.hpp"

namespace attn::tools {
namespace {

constexpr Index piece_bytes = Index{1} << 22;

[[noreturn]] void refuse_value(const std::string& address, double value, DType type) {
  throw Error(Failure::numerical,
              fmt::format("{} holds {:g}, which is beyond {}", address, value, attn::name(type)));
}

/// Widens all elements to float64, which holds every floating-point type.
void widen(DType type, const void* in, Index count, double* out) {
  switch (type) {
    case DType::f16:
      return convert(static_cast<const Half*>(in), count, out);
    case DType::bf16:
      return convert(static_cast<const Bfloat16*>(in), count, out);
    case DType::f32:
      return convert(static_cast<const float*>(in), count, out);
    case DType::f64:
      return convert(static_cast<const double*>(in), count, out);
    default:
      throw std::invalid_argument("no conversion from " + std::string(attn::name(type)));
  }
}

template <class Out, class Round, class IsInfinite>
void round_all(const Produced& source, DType type, const double* values, Index count, Out* out,
               const Round& round, const IsInfinite& is_infinite) {
  for (Index i = 0; i < count; ++i) {
    out[i] = round(values[i]);
    if (is_infinite(out[i]) && std::isfinite(values[i])) {
      refuse_value(source.address, values[i], type);
    }
  }
}

void round_to(const Produced& source, DType type, const double* values, Index count, void* out) {
  switch (type) {
    case DType::f16:
      return round_all(source, type, values, count, static_cast<std::uint16_t*>(out), narrow_half,
                       [](std::uint16_t b) { return (b & 0x7fff) == 0x7c00; });
    case DType::bf16:
      return round_all(source, type, values, count, static_cast<std::uint16_t*>(out),
                       narrow_bfloat16, [](std::uint16_t b) { return (b & 0x7fff) == 0x7f80; });
    case DType::f32:
      return round_all(
          source, type, values, count, static_cast<float*>(out),
          [](double value) { return static_cast<float>(value); },
          [](float value) { return std::isinf(value); });
    case DType::f64:
      std::copy_n(values, count, static_cast<double*>(out));
      return;
    default:
      throw std::invalid_argument("no conversion to " + std::string(attn::name(type)));
  }
}

/// Calls `put` with the position and the elements of each piece.
template <class Put>
void for_pieces(const cli::Arguments& arguments, const Produced& dataset, const Put& put) {
  const auto size = static_cast<Index>(size_of(dataset.type));
  const Index limit = std::clamp<Index>(arguments.memory / 4, 1, piece_bytes) / size;
  const Buffer<char> buffer(std::min(std::max<Index>(limit, 1), element_count(dataset.shape)) *
                            size);
  for_each_piece(dataset.shape, std::max<Index>(limit, 1), [&](const Piece& piece) {
    dataset.read(piece.start, piece.count, buffer.data());
    put(piece, buffer.data());
  });
}

}  // namespace

Produced produced(const ArraySource& dataset, std::optional<DType> type) {
  Produced result;
  result.name = dataset.name();
  result.address = dataset.address();
  result.shape = dataset.shape();
  result.type = dataset.dtype();
  result.read = [dataset](const Shape& start, const Shape& count, void* out) {
    dataset.read_stored(start, count, out);
  };
  return type ? rounded(result, *type) : result;
}

Produced rounded(const Produced& dataset, DType type) {
  Produced result = dataset;
  result.type = type;
  // Reused from piece to piece.
  const auto stored = std::make_shared<Buffer<char>>();
  const auto values = std::make_shared<Buffer<double>>();
  result.read = [=](const Shape& start, const Shape& count, void* out) {
    const Index total = element_count(count);
    stored->reserve(total * static_cast<Index>(size_of(dataset.type)));
    values->reserve(total);
    dataset.read(start, count, stored->data());
    widen(dataset.type, stored->data(), total, values->data());
    round_to(dataset, type, values->data(), total, out);
  };
  return result;
}

Produced split_heads(const Produced& dataset, Index heads) {
  Produced result = dataset;
  Shape& shape = result.shape;
  const std::size_t rank = shape.size();  // of the stored array: the axis of heads is rank - 2
  if (rank < 2 || shape.back() % heads != 0 || !is_floating(dataset.type)) {
    throw Error(Failure::input,
                fmt::format("{} is {} of {}, expected numbers (..., length, channels) with a "
                            "multiple of {} channels",
                            dataset.address, to_string(shape), attn::name(dataset.type), heads));
  }
  if (rank >= 4 && (shape[rank - 2] == heads || shape[rank - 3] == heads)) {
    throw Error(Failure::input,
                fmt::format("{} is {}, which has an axis of {} already, but --heads {} adds one",
                            dataset.address, to_string(shape), heads, heads),
                "if it is no axis of heads, convert parts, such as NAME=FILE:NAME[0]");
  }
  const Index depth = shape.back() / heads;
  shape.back() = depth;
  shape.insert(shape.end() - 2, heads);
  result.labels.clear();
  result.read = [=](const Shape& start, const Shape& count, void* out) {
    const Shape blocks(count.begin(), count.end() - 2);  // of leading axes, then heads
    const Index size = count[rank - 1] * count[rank] * static_cast<Index>(size_of(dataset.type));
    for (Index n = 0; n < element_count(blocks); ++n) {
      Shape at = unravel(n, blocks);
      for (std::size_t axis = 0; axis < at.size(); ++axis) at[axis] += start[axis];
      const Index head = at.back();
      at.back() = start[rank - 1];
      at.push_back(head * depth + start[rank]);
      Shape one(rank, 1);
      one[rank - 2] = count[rank - 1];
      one[rank - 1] = count[rank];
      dataset.read(at, one, static_cast<char*>(out) + n * size);
    }
  };
  return result;
}

void write(const cli::Arguments& arguments, const Produced& dataset, io::OutputBundle& output) {
  io::OutputDataset target =
      output.create(dataset.name, dataset.type, dataset.shape, dataset.labels);
  for_pieces(arguments, dataset, [&](const Piece& piece, const char* elements) {
    target.write_stored(piece.start, piece.count, elements);
  });
}

void write(const cli::Arguments& arguments, const std::vector<Produced>& datasets,
           io::ArrayOutput& output) {
  std::map<std::string, const Produced*> by_name;
  for (const Produced& dataset : datasets) by_name[dataset.name] = &dataset;
  for (const io::ArrayPlan& plan : output.order()) {
    if (plan.dtype == DType::string) {
      output.write_strings(by_name.at(plan.name)->texts);
      continue;
    }
    for_pieces(arguments, *by_name.at(plan.name), [&](const Piece& piece, const char* elements) {
      output.write(elements, piece.size);
    });
  }
}

}  // namespace attn::tools
