#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "kernel/online_softmax.hpp"
#include "kernel/tile.hpp"
#include "pass/row_selection.hpp"
#include "tensor/infinity.hpp"
#include "tensor/pooled_vector.hpp"
#include "tensor/view.hpp"

/// Sums of exponentials by row that panels of keys add to, for dnas and for the softmax in hnas
/// (one_pass.hpp).
namespace attn {

/// Sums by row of one scheme's weights: exp(−level) times their true value.
struct ScaledSums {
  PooledVector<double> values;
  double level = 0;

  void clear(double begin) {
    std::fill(values.begin(), values.end(), 0.0);
    level = begin;
  }
};

/// The factors of two sums before they were added.
struct AddedBy {
  double kept = 1;
  double added = 1;
};

/// Raises the level of `total` to fit `sums`. Returns the factors by which both must be multiplied
/// before they are added.
inline AddedBy join_levels(const ScaledSums& sums, ScaledSums& total) {
  const double level = std::max(total.level, sums.level);
  // No sum has an allowed pair.
  if (level == minus_infinity) return {1, 0};
  const auto factor = [&](double from) {
    return from == minus_infinity ? 0 : std::exp(from - level);
  };
  const AddedBy by{factor(total.level), factor(sums.level)};
  total.level = level;
  return by;
}

/// total += sums, for rows [first, last), with the levels joined.
inline void add_sums(const ScaledSums& sums, ScaledSums& total, const AddedBy& by, RowRange rows) {
  for (auto i = static_cast<std::size_t>(rows.first); i < static_cast<std::size_t>(rows.last);
       ++i) {
    total.values[i] = by.kept * total.values[i] + by.added * sums.values[i];
  }
}

/// total += sums.
inline AddedBy add_sums(const ScaledSums& sums, ScaledSums& total) {
  const AddedBy by = join_levels(sums, total);
  if (by.added != 0) add_sums(sums, total, by, {0, static_cast<Index>(sums.values.size())});
  return by;
}

/// The softmax of hnas, from a panel of exponentials exp(s_ij − m_j) that add up to `sum`: raises
/// the level of `sums` to the largest m_j, and writes the factors exp(m_j − level), 0 for a key
/// with nothing allowed. Returns the factor by which earlier results must be multiplied; `sums` are
/// already.
inline double raise_level(std::span<const double> m, std::span<const double> sum, ScaledSums& sums,
                          PooledVector<double>& factor) {
  double largest = sums.level;
  for (std::size_t j = 0; j < m.size(); ++j) {
    if (sum[j] != 0) largest = std::max(largest, m[j]);
  }
  double by = 1;
  if (sums.level < largest && sums.level != minus_infinity) {
    by = std::exp(sums.level - largest);
    for (double& value : sums.values) value *= by;
  }
  sums.level = largest;
  factor.assign(m.size(), 0.0);
  for (std::size_t j = 0; j < m.size(); ++j) {
    if (sum[j] != 0) factor[j] = std::exp(m[j] - largest);
  }
  return by;
}

/// sums_i += Σ_j tile_ij factor_j, from row `first` on, for one part or for two.
template <class T>
void add_row_sums(MatrixView<const T> tile, const double* const (&factor)[2], Index first,
                  ScaledSums& sums, ScaledSums* second) {
  if (second == nullptr) {
    kernel::add_row_products(tile, factor[0], sums.values.data() + first);
  } else {
    kernel::add_two_row_products(tile, factor,
                                 {sums.values.data() + first, second->values.data() + first});
  }
}

/// Row i of a matrix times factor_i; a factor of 0 leaves 0 also in place of a NaN.
template <class T>
void multiply_rows(MatrixView<T> rows, const T* factor) {
  for (Index i = 0; i < rows.rows; ++i) {
    if (factor[i] == 0) {
      std::fill_n(rows.row(i), rows.cols, T{0});
    } else if (factor[i] != 1) {
      kernel::scale_row(rows.row(i), rows.cols, static_cast<double>(factor[i]));
    }
  }
}

/// The same numbers as one row, if they lie side by side.
template <class T>
MatrixView<T> as_row(MatrixView<T> matrix) {
  return {matrix.data, 1, matrix.rows * matrix.cols};
}

/// to = to · kept + from · added
template <class T>
void add_scaled(MatrixView<const T> from, MatrixView<T> to, const AddedBy& by = {}) {
  if (to.rows > 1 && from.row_stride == from.cols && to.row_stride == to.cols) {
    return add_scaled<T>(as_row(from), as_row(to), by);
  }
  for (Index i = 0; i < to.rows; ++i) {
    if (by.kept != 1) kernel::scale_row(to.row(i), to.cols, by.kept);
    kernel::add_scaled_row(to.row(i), from.row(i), to.cols, by.added);
  }
}

}  // namespace attn
