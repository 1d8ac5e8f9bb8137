#include "plan/number_check.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attnkit/error.hpp"
#include "kernel/magnitudes.hpp"
#include "kernel/parallel.hpp"

namespace attn {
namespace {

constexpr Index piece_size = Index{1} << 16;

// With fewer pieces, waking another thread takes as long as checking the pieces.
constexpr Index pieces_per_thread = 16;

template <class T>
bool is_allowed(T value, Allowed allowed) {
  switch (allowed) {
    case Allowed::finite:
      break;
    case Allowed::finite_or_minus_infinity:
      return std::isfinite(value) || value == -std::numeric_limits<T>::infinity();
    case Allowed::finite_not_negative:
      return std::isfinite(value) && value >= 0;
  }
  return std::isfinite(value);
}

const char* text_of(Allowed allowed) {
  switch (allowed) {
    case Allowed::finite:
      break;
    case Allowed::finite_or_minus_infinity:
      return "finite numbers or -inf";
    case Allowed::finite_not_negative:
      return "finite numbers >= 0";
  }
  return "finite numbers";
}

}  // namespace

template <class T>
bool all_finite(const T* values, Index count) {
  T largest = 0;
  bool negative = false;
  return kernel::magnitudes(values, count, &largest, &negative);
}

template <class T>
Index NumberCheck<T>::rows_of_piece(Index cols) {
  return std::max<Index>(1, piece_size / std::max<Index>(1, cols));
}

template <class T>
std::size_t NumberCheck<T>::add(const std::string& name, const Shape& shape, Index rows, Index cols,
                                Allowed allowed, Index regions) {
  Array array{name, shape, rows, cols, allowed, nullptr, {}, pieces_.size(), 0};
  array.regions.resize(static_cast<std::size_t>(regions));
  const Index at_once = rows_of_piece(cols);
  if (cols > 0) array.pieces_of_region = (rows + at_once - 1) / at_once;
  for (Index region = 0; region < regions; ++region) {
    for (Index piece = 0; piece < array.pieces_of_region; ++piece) {
      pieces_.push_back({arrays_.size(), region, piece * at_once, T{0}});
    }
  }
  arrays_.push_back(std::move(array));
  return arrays_.size() - 1;
}

template <class T>
void NumberCheck<T>::set_region(std::size_t array, Index region, const NumberRegion& numbers) {
  arrays_[array].regions[static_cast<std::size_t>(region)] = numbers;
}

template <class T>
void NumberCheck<T>::look(int threads) {
  const auto count = static_cast<Index>(pieces_.size());
  const auto useful = static_cast<int>(std::min<Index>(threads, 1 + count / pieces_per_thread));
  kernel::parallel_for(count, useful,
                       [&](Index n, int) { look(pieces_[static_cast<std::size_t>(n)]); });
}

template <class T>
void NumberCheck<T>::look(Piece& piece) const {
  const Array& array = arrays_[piece.array];
  const NumberRegion& region = array.regions[static_cast<std::size_t>(piece.region)];
  const TileRange& range = region.range;
  const Index last = std::min(range.rows, piece.row0 + rows_of_piece(array.cols));
  // Whole rows lie side by side.
  const bool together = range.cols == array.cols;
  const Index step = together ? std::max<Index>(1, last - piece.row0) : 1;
  piece.largest = 0;
  for (Index row = piece.row0; row < last; row += step) {
    const Index first = (region.block * array.rows + range.row0 + row) * array.cols + range.col0;
    const Index count = step * range.cols;
    T largest = 0;
    bool any_negative = false;
    const bool finite = kernel::magnitudes(array.values + first, count, &largest, &any_negative);
    piece.largest = std::max(piece.largest, largest);
    const bool negative = array.allowed == Allowed::finite_not_negative && any_negative;
    if (finite && !negative) continue;
    for (Index n = 0; n < count; ++n) {
      if (!is_allowed(array.values[first + n], array.allowed)) refuse(array, first + n);
    }
  }
}

template <class T>
double NumberCheck<T>::largest(std::size_t array, Index region) const {
  const Array& of = arrays_[array];
  const std::size_t first = of.first_piece + static_cast<std::size_t>(region * of.pieces_of_region);
  T largest = 0;
  for (Index n = 0; n < of.pieces_of_region; ++n) {
    largest = std::max(largest, pieces_[first + static_cast<std::size_t>(n)].largest);
  }
  return static_cast<double>(largest);
}

template <class T>
void NumberCheck<T>::refuse(const Array& array, Index at) const {
  const T value = array.values[at];
  // The sign of a NaN has no meaning.
  throw Error(Failure::input,
              array.name + " has " + (std::isnan(value) ? "nan" : std::to_string(value)) + " at " +
                  to_string(unravel(at, array.shape)) + ", expected " + text_of(array.allowed));
}

template bool all_finite(const float*, Index);
template bool all_finite(const double*, Index);
template class NumberCheck<float>;
template class NumberCheck<double>;

}  // namespace attn
