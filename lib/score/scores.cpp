#include "score/scores.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "tensor/error.hpp"

namespace attn {
namespace {

template <class T>
constexpr T forbidden = -std::numeric_limits<T>::infinity();

// Potentials grow to a few times the largest score; all differences stay far inside the format.
template <class T>
constexpr T largest_score = std::numeric_limits<T>::max() / 16;

template <class T>
MatrixView<T> scratch_view(Buffer<T>& buffer, const TileRange& range) {
  buffer.reserve(range.rows * range.cols);
  return MatrixView<T>(buffer.data(), range.rows, range.cols);
}

}  // namespace

Index Support::empty_queries() const {
  return std::count(keys_of_query.begin(), keys_of_query.end(), 0);
}

Index Support::empty_keys() const {
  return std::count(queries_of_key.begin(), queries_of_key.end(), 0);
}

Index Support::most_keys() const {
  return keys_of_query.empty() ? 0 : *std::max_element(keys_of_query.begin(), keys_of_query.end());
}

template <class T>
Scores<T>::Scores(const Terms& terms) : terms_(terms) {
  const double bias = terms.bias == nullptr ? 0.0 : terms.bias->bound();
  // False for an unknown bound (+inf) and for NaN: then every score is looked at.
  surely_finite_ = terms.energy->bound() + bias <= static_cast<double>(largest_score<T>);
}

template <class T>
Index Scores<T>::first_forbidden(Index row) const {
  switch (terms_.causal) {
    case Causal::none:
      return cols();
    case Causal::top_left:
      return std::min(cols(), row + 1);
    case Causal::bottom_right:
      return std::clamp<Index>(row + 1 + cols() - rows(), 0, cols());
  }
  return cols();
}

template <class T>
bool Scores<T>::empty(const TileRange& range) const {
  return range.rows == 0 || range.cols == 0 ||
         range.col0 >= first_forbidden(range.row0 + range.rows - 1);
}

template <class T>
void Scores<T>::fill(const TileRange& range, MatrixView<T> out, Scratch& scratch) const {
  terms_.energy->fill(range, out);
  if (!surely_finite_) {
    fill_checked(range, out, scratch);
    return;
  }
  if (terms_.bias != nullptr) {
    const auto bias = scratch_view(scratch.bias, range);
    terms_.bias->read(range, bias);
    for (Index i = 0; i < range.rows; ++i) {
      T* row = out.row(i);
      const T* add = bias.row(i);
      for (Index j = 0; j < range.cols; ++j) row[j] += add[j];
    }
  }
  if (terms_.mask != nullptr) {
    const auto mask = scratch_view(scratch.mask, range);
    terms_.mask->read(range, mask);
    for (Index i = 0; i < range.rows; ++i) {
      T* row = out.row(i);
      const std::uint8_t* may = mask.row(i);
      for (Index j = 0; j < range.cols; ++j) row[j] = may[j] != 0 ? row[j] : forbidden<T>;
    }
  }
  if (terms_.causal == Causal::none) return;
  for (Index i = 0; i < range.rows; ++i) {
    const Index first =
        std::clamp<Index>(first_forbidden(range.row0 + i) - range.col0, 0, range.cols);
    std::fill(out.row(i) + first, out.row(i) + range.cols, forbidden<T>);
  }
}

// What may attend to what in `range`, apart from ready-made scores; reads the bias into `bias`.
template <class T>
void Scores<T>::allow(const TileRange& range, MatrixView<T> bias,
                      MatrixView<std::uint8_t> allowed) const {
  if (terms_.mask != nullptr) {
    terms_.mask->read(range, allowed);
  } else {
    for (Index i = 0; i < range.rows; ++i) std::fill_n(allowed.row(i), range.cols, std::uint8_t{1});
  }
  if (terms_.bias != nullptr) terms_.bias->read(range, bias);
  for (Index i = 0; i < range.rows; ++i) {
    std::uint8_t* may = allowed.row(i);
    if (terms_.bias != nullptr) {
      for (Index j = 0; j < range.cols; ++j) {
        may[j] = may[j] != 0 && bias(i, j) != forbidden<T> ? 1 : 0;
      }
    }
    const Index first =
        std::clamp<Index>(first_forbidden(range.row0 + i) - range.col0, 0, range.cols);
    std::fill(may + first, may + range.cols, std::uint8_t{0});
  }
}

template <class T>
void Scores<T>::fill_checked(const TileRange& range, MatrixView<T> out, Scratch& scratch) const {
  const auto bias = scratch_view(scratch.bias, range);
  const auto allowed = scratch_view(scratch.mask, range);
  allow(range, bias, allowed);
  const bool may_forbid = terms_.energy->may_forbid();
  for (Index i = 0; i < range.rows; ++i) {
    T* row = out.row(i);
    for (Index j = 0; j < range.cols; ++j) {
      if (allowed(i, j) == 0 || (may_forbid && row[j] == forbidden<T>)) {
        row[j] = forbidden<T>;
        continue;
      }
      if (terms_.bias != nullptr) row[j] += bias(i, j);
      // Written so that a NaN is refused.
      if (!(std::abs(row[j]) <= largest_score<T>)) refuse(range.row0 + i, range.col0 + j);
    }
  }
}

template <class T>
void Scores<T>::refuse(Index row, Index col) const {
  constexpr bool is_float = sizeof(T) == sizeof(float);
  throw Error(Failure::numerical,
              "the score of query " + std::to_string(row) + " and key " + std::to_string(col) +
                  " is beyond the range of " + (is_float ? "float32" : "float64"),
              is_float ? "--precision f64" : "");
}

template <class T>
Support Scores<T>::support() const {
  if (terms_.bias != nullptr || terms_.mask != nullptr || terms_.energy->may_forbid()) {
    return support_by_looking();
  }
  Support support;
  support.keys_of_query.resize(static_cast<std::size_t>(rows()));
  std::vector<Index> ends_at(static_cast<std::size_t>(cols()) + 1, 0);
  for (Index i = 0; i < rows(); ++i) {
    const Index keys = first_forbidden(i);
    support.keys_of_query[static_cast<std::size_t>(i)] = keys;
    ++ends_at[static_cast<std::size_t>(keys)];
  }
  // Key j is seen by the queries that see more than j keys.
  support.queries_of_key.resize(static_cast<std::size_t>(cols()));
  Index queries = rows();
  for (std::size_t j = 0; j < support.queries_of_key.size(); ++j) {
    queries -= ends_at[j];
    support.queries_of_key[j] = queries;
  }
  return support;
}

template <class T>
Support Scores<T>::support_by_looking() const {
  Support support;
  support.keys_of_query.assign(static_cast<std::size_t>(rows()), 0);
  support.queries_of_key.assign(static_cast<std::size_t>(cols()), 0);
  constexpr Index tile_rows = 64;
  constexpr Index tile_cols = 1024;
  Buffer<T> energy_storage;
  Scratch scratch;
  for (Index row0 = 0; row0 < rows(); row0 += tile_rows) {
    for (Index col0 = 0; col0 < cols(); col0 += tile_cols) {
      const TileRange range{row0, std::min(tile_rows, rows() - row0), col0,
                            std::min(tile_cols, cols() - col0)};
      if (empty(range)) continue;
      const auto bias = scratch_view(scratch.bias, range);
      const auto allowed = scratch_view(scratch.mask, range);
      allow(range, bias, allowed);
      if (terms_.energy->may_forbid()) {
        const auto energy = scratch_view(energy_storage, range);
        terms_.energy->fill(range, energy);
        for (Index i = 0; i < range.rows; ++i) {
          for (Index j = 0; j < range.cols; ++j) {
            if (energy(i, j) == forbidden<T>) allowed(i, j) = 0;
          }
        }
      }
      for (Index i = 0; i < range.rows; ++i) {
        for (Index j = 0; j < range.cols; ++j) {
          const Index may = allowed(i, j) != 0 ? 1 : 0;
          support.keys_of_query[static_cast<std::size_t>(row0 + i)] += may;
          support.queries_of_key[static_cast<std::size_t>(col0 + j)] += may;
        }
      }
    }
  }
  return support;
}

template class Scores<float>;
template class Scores<double>;

}  // namespace attn
