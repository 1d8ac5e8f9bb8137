#include "head/number_check.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernel/magnitudes.hpp"
#include "parallel/parallel_for.hpp"

namespace attn {
namespace {

constexpr Index piece_size = Index{1} << 16;

// With fewer numbers, waking another thread takes as long as checking them.
constexpr Index numbers_per_thread = piece_size;

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
void NumberCheck<T>::clear() {
  parts_.clear();
  pieces_.clear();
}

template <class T>
std::size_t NumberCheck<T>::add(const Operand& operand, Index block, const TileRange& range,
                                const MatrixView<const T>& values, Allowed allowed,
                                const SeenRows& seen) {
  const std::size_t part = parts_.size();
  parts_.push_back({&operand, block, range, values, allowed, seen});
  const Index at_once = std::max<Index>(1, piece_size / std::max<Index>(1, range.cols));
  for (Index row0 = 0; range.cols > 0 && row0 < range.rows; row0 += at_once) {
    pieces_.push_back({part, row0, std::min(at_once, range.rows - row0)});
  }
  return part;
}

template <class T>
void NumberCheck<T>::look(int threads) {
  Index numbers = 0;
  for (const Part& part : parts_) numbers += part.range.rows * part.range.cols;
  const auto useful = static_cast<int>(std::min<Index>(threads, 1 + numbers / numbers_per_thread));
  parallel_for(static_cast<Index>(pieces_.size()), useful,
               [&](Index n, int) { look(pieces_[static_cast<std::size_t>(n)]); });
  for (const Piece& piece : pieces_) {
    Part& part = parts_[piece.part];
    part.largest = std::max(part.largest, piece.largest);
    part.strange = part.strange || piece.strange;
  }
}

template <class T>
void NumberCheck<T>::look(Piece& piece) const {
  const Part& part = parts_[piece.part];
  const Index cols = part.range.cols;
  // Whole rows lie side by side.
  const Index step = part.values.row_stride == cols ? piece.rows : 1;
  for (Index row = piece.row0; row < piece.row0 + piece.rows; row += step) {
    const T* const values = part.values.row(row);
    T largest = 0;
    bool any_negative = false;
    const bool finite = kernel::magnitudes(values, step * cols, &largest, &any_negative);
    piece.largest = std::max(piece.largest, largest);
    const bool negative = part.allowed == Allowed::finite_not_negative && any_negative;
    if (finite && !negative) continue;
    for (Index n = 0; n < step * cols; ++n) {
      if (is_allowed(values[n], part.allowed)) continue;
      if (part.seen.has(part.range.row0 + row + n / cols)) refuse(part, row + n / cols, n % cols);
      piece.strange = true;
    }
  }
}

template <class T>
void NumberCheck<T>::refuse(const Part& part, Index row, Index col) {
  const BlockAxes axes(*part.operand, part.block, part.range.row0 + row, 1, part.range.col0 + col,
                       1);
  refuse_element(part.operand->dataset, axes.start, axes.count, 0, part.values(row, col),
                 text_of(part.allowed));
}

template bool all_finite(const float*, Index);
template bool all_finite(const double*, Index);
template class NumberCheck<float>;
template class NumberCheck<double>;

}  // namespace attn
