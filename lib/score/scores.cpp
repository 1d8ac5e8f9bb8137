#include "score/scores.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "attnkit/error.hpp"
#include "kernel/magnitudes.hpp"
#include "kernel/online_softmax.hpp"
#include "kernel/terms.hpp"

namespace attn {
namespace {

template <class T>
constexpr T forbidden = -std::numeric_limits<T>::infinity();

// Potentials grow to a few times the largest score; all differences stay far inside the format.
template <class T>
constexpr T largest_score = std::numeric_limits<T>::max() / 16;

// Beyond |log u| of the smallest float64.
constexpr double largest_log = 746;

constexpr double largest_near_zero = 30;

template <class U>
MatrixView<U> scratch_view(Buffer<U>& buffer, const TileRange& range) {
  buffer.reserve(range.rows * range.cols);
  return MatrixView<U>(buffer.data(), range.rows, range.cols);
}

}  // namespace

template <class T>
Scores<T>::Scores(const Terms& terms)
    : terms_(terms), band_(terms.energy->rows(), terms.energy->cols(), terms.band) {
  if (terms.relative != nullptr &&
      (terms.relative->rows() != rows() || terms.relative->cols() != cols())) {
    throw std::logic_error("the relative bias and the energy differ in shape");
  }
  // Written so that NaN is rejected.
  if (terms.softcap && !(*terms.softcap > 0 && std::isfinite(*terms.softcap))) {
    throw Error(Failure::input, "the softcap is " + std::to_string(*terms.softcap) +
                                    ", expected a finite number > 0");
  }
  if (!limits_are_expensive()) limits();
}

template <class T>
typename Scores<T>::Limits Scores<T>::find_limits() const {
  Limits limits;
  limits.bounds = find_bounds();
  const ScoreBounds& bounds = limits.bounds;
  const double largest =
      terms_.softcap ? std::min(bounds.intermediate, *terms_.softcap) : bounds.intermediate;
  const double added = bounds.relative + bounds.bias + bounds.preference;
  // False for an unknown bound (+inf) and for NaN: then every score is checked.
  constexpr auto most = static_cast<double>(largest_score<T>);
  limits.surely_finite = bounds.intermediate <= most && largest + added <= most;
  const double shown = terms_.softcap ? std::min(bounds.energy, *terms_.softcap) : bounds.energy;
  limits.magnitude = limits.surely_finite ? shown + added : std::numeric_limits<double>::infinity();
  limits.near_zero = !terms_.same_if_rescaled && limits.magnitude <= largest_near_zero;
  return limits;
}

template <class T>
ScoreBounds Scores<T>::find_bounds() const {
  ScoreBounds bounds;
  bounds.intermediate = terms_.energy->bound();
  bounds.energy = terms_.energy->magnitude();
  if (terms_.relative != nullptr) bounds.relative = terms_.relative->bound();
  if (terms_.bias != nullptr) bounds.bias = terms_.bias->bound();
  if (terms_.preference != nullptr) bounds.preference = largest_log;
  return bounds;
}

template <class T>
const typename Scores<T>::Limits& Scores<T>::limits() const {
  std::call_once(finding_limits_, [this] { limits_ = find_limits(); });
  return limits_;
}

template <class T>
bool Scores<T>::is_energy_alone(const TileRange& range) const {
  return terms_.bias == nullptr && terms_.mask == nullptr && terms_.relative == nullptr &&
         terms_.preference == nullptr && !terms_.softcap && band_.full(range);
}

template <class T>
bool Scores<T>::is_in_range(MatrixView<T> scores) const {
  bool in_range = true;
  for (Index i = 0; i < scores.rows; ++i) {
    T largest = 0;
    bool negative = false;
    const bool finite = kernel::magnitudes(scores.row(i), scores.cols, &largest, &negative);
    in_range = in_range && finite && largest <= largest_score<T>;
  }
  return in_range;
}

template <class T>
void Scores<T>::fill(const TileRange& range, MatrixView<T> out, Scratch& scratch) const {
  terms_.energy->fill(range, out);
  const bool checked = limits_are_expensive() || !limits().surely_finite;
  if (checked && is_energy_alone(range) && is_in_range(out)) return;
  const Read terms = read(range, scratch, checked);
  if (checked) {
    fill_checked(range, out, terms);
    return;
  }
  if (terms_.softcap) {
    for (Index i = 0; i < range.rows; ++i)
      kernel::soft_cap(out.row(i), range.cols, *terms_.softcap);
  }
  add(range, terms, out);
  if (terms_.mask != nullptr) {
    for (Index i = 0; i < range.rows; ++i) {
      T* row = out.row(i);
      const std::uint8_t* may = terms.mask.row(i);
      for (Index j = 0; j < range.cols; ++j) row[j] = may[j] != 0 ? row[j] : forbidden<T>;
    }
  }
  if (band_.whole()) return;
  for (Index i = 0; i < range.rows; ++i) {
    const Index begin = std::clamp<Index>(band_.begin(range.row0 + i) - range.col0, 0, range.cols);
    const Index end = std::clamp<Index>(band_.end(range.row0 + i) - range.col0, 0, range.cols);
    std::fill(out.row(i), out.row(i) + begin, forbidden<T>);
    std::fill(out.row(i) + end, out.row(i) + range.cols, forbidden<T>);
  }
}

template <class T>
void Scores<T>::fill_exponentials(const TileRange& range, MatrixView<T> out, Scratch& scratch,
                                  double* row_sum, double* col_sum, double* row_product) const {
  if (is_energy_alone(range) &&
      terms_.energy->fill_exponentials(range, out, row_sum, col_sum, row_product)) {
    return;
  }
  fill(range, out, scratch);
  kernel::exp_tile(out, row_sum, col_sum, row_product);
}

// With `allowed`, the result always has a mask of the allowed pairs of `range`, which ignores
// ready-made scores.
template <class T>
typename Scores<T>::Read Scores<T>::read(const TileRange& range, Scratch& scratch,
                                         bool allowed) const {
  Read read;
  if (terms_.bias != nullptr) {
    read.bias = scratch_view(scratch.bias, range);
    terms_.bias->read(range, read.bias);
  }
  if (terms_.preference != nullptr) {
    read.preference = scratch_view(scratch.preference, range);
    terms_.preference->read(range, read.preference);
    require_preference(range, read.preference);
  }
  if (terms_.mask != nullptr) {
    read.mask = scratch_view(scratch.mask, range);
    terms_.mask->read(range, read.mask);
  } else if (allowed) {
    read.mask = scratch_view(scratch.mask, range);
  }
  if (allowed) allow(range, read);
  return read;
}

template <class T>
void Scores<T>::require_preference(const TileRange& range, MatrixView<const T> preference) const {
  for (Index i = 0; i < range.rows; ++i) {
    for (Index j = 0; j < range.cols; ++j) {
      const T u = preference(i, j);
      // NaN fails the comparison.
      if (u >= 0 && u <= std::numeric_limits<T>::max()) continue;
      throw Error(Failure::input, "the preference of query " +
                                      std::to_string(terms_.first_query + range.row0 + i) +
                                      " and key " + std::to_string(range.col0 + j) + " is " +
                                      std::to_string(u) + ", expected a finite number >= 0");
    }
  }
}

template <class T>
void Scores<T>::add(const TileRange& range, const Read& read, MatrixView<T> out) const {
  const bool bias = terms_.bias != nullptr;
  const bool preference = terms_.preference != nullptr;
  for (Index i = 0; i < range.rows; ++i) {
    T* row = out.row(i);
    const T* relative =
        terms_.relative == nullptr ? nullptr : terms_.relative->row(range.row0 + i) + range.col0;
    if (!preference && bias != (relative != nullptr)) {
      // A single sum rounds the same in T.
      const T* one = bias ? read.bias.row(i) : relative;
      for (Index j = 0; j < range.cols; ++j) row[j] += one[j];
    } else if (preference || bias) {
      kernel::add_terms(row, range.cols, relative, bias ? read.bias.row(i) : nullptr,
                        preference ? read.preference.row(i) : nullptr);
    }
  }
}

template <class T>
void Scores<T>::allow_row(const Read& read, Index i, std::uint8_t* may, Index cols) const {
  if (terms_.mask == nullptr) {
    std::fill_n(may, cols, std::uint8_t{1});
  } else {
    const std::uint8_t* mask = read.mask.row(i);
    for (Index j = 0; j < cols; ++j) may[j] = mask[j] != 0 ? 1 : 0;
  }
  if (terms_.bias != nullptr) {
    const T* bias = read.bias.row(i);
    for (Index j = 0; j < cols; ++j) may[j] &= static_cast<std::uint8_t>(bias[j] != forbidden<T>);
  }
  if (terms_.preference != nullptr) {
    const T* preference = read.preference.row(i);
    for (Index j = 0; j < cols; ++j) may[j] &= static_cast<std::uint8_t>(preference[j] != 0);
  }
}

template <class T>
void Scores<T>::allow(const TileRange& range, const Read& read) const {
  for (Index i = 0; i < range.rows; ++i) {
    std::uint8_t* may = read.mask.row(i);
    allow_row(read, i, may, range.cols);
    const Index begin = std::clamp<Index>(band_.begin(range.row0 + i) - range.col0, 0, range.cols);
    const Index end = std::clamp<Index>(band_.end(range.row0 + i) - range.col0, 0, range.cols);
    std::fill(may, may + begin, std::uint8_t{0});
    std::fill(may + end, may + range.cols, std::uint8_t{0});
  }
}

template <class T>
void Scores<T>::fill_checked(const TileRange& range, MatrixView<T> out, const Read& read) const {
  const bool may_forbid = terms_.energy->may_forbid();
  for (Index i = 0; i < range.rows; ++i) {
    T* row = out.row(i);
    std::uint8_t* may = read.mask.row(i);
    for (Index j = 0; j < range.cols; ++j) {
      if (may_forbid && row[j] == forbidden<T>) may[j] = 0;
      // A cap would turn an infinity into a number, and SIMD code might turn a NaN into one.
      if (terms_.softcap && may[j] != 0 && !std::isfinite(row[j])) {
        refuse(range.row0 + i, range.col0 + j);
      }
    }
    if (terms_.softcap) kernel::soft_cap(row, range.cols, *terms_.softcap);
  }
  add(range, read, out);
  for (Index i = 0; i < range.rows; ++i) {
    T* row = out.row(i);
    const std::uint8_t* may = read.mask.row(i);
    for (Index j = 0; j < range.cols; ++j) {
      if (may[j] == 0) {
        row[j] = forbidden<T>;
      } else if (!(std::abs(row[j]) <= largest_score<T>)) {  // written so that NaN is rejected
        refuse(range.row0 + i, range.col0 + j);
      }
    }
  }
}

template <class T>
void Scores<T>::refuse(Index row, Index col) const {
  throw_beyond_range<T>("the score of query " + std::to_string(terms_.first_query + row) +
                        " and key " + std::to_string(col) + " is beyond the range of");
}

template class Scores<float>;
template class Scores<double>;

}  // namespace attn
