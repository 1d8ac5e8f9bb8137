#pragma once

#include <cmath>
#include <numeric>

#include "gradient/gradient.hpp"
#include "kernel/gradient.hpp"
#include "pass/slot_share.hpp"

namespace attn {

/// du = Σ_ij (π_dnas − π_unas)_ij (G_ij − δ_i), by columns: δ of the mixture changes nothing,
/// because rows of both sum to 1, and keeps the terms small.
///
/// Where scores are close to each other, the two hardly differ, and the error of g from float32
/// sums shows; the deviation of Σ_i ξ_ij from 1 corrects this. Rows need no correction: their terms
/// cancel in the factors.
template <class T>
class HybridSum {
 public:
  HybridSum(const WeightAdjoint<T>& dnas, const WeightAdjoint<T>& unas)
      : col_(dnas.g), row_(dnas.row), ratio_(dnas.f.size()), sums_(dnas.g.size()) {
    for (std::size_t i = 0; i < row_.size(); ++i) {
      row_[i] += unas.row[i];
      const bool closed = std::isinf(dnas.f[i]);
      ratio_[i] = closed ? 0.0 : unas.f[i] - dnas.f[i];
      factor_.push_back(closed ? 0.0 : std::exp(dnas.f[i]));
    }
  }

  /// Adds the tile's part of Σ_i ξ_ij, for `mend`.
  void weigh(MatrixView<const T> dnas, const TileRange& tile, PooledVector<double>& mass) const {
    kernel::add_weighted_columns(dnas, factor_.data() + tile.row0, mass.data());
  }

  /// Requires that all tiles of these columns have been weighed.
  void mend(Index first, const PooledVector<double>& mass) {
    for (std::size_t j = 0; j < mass.size(); ++j) {
      if (mass[j] > 0) col_[static_cast<std::size_t>(first) + j] += std::log(mass[j]);
    }
  }

  void add(MatrixView<const T> dnas, MatrixView<const T> unas, MatrixView<const T> products,
           const TileRange& tile) {
    kernel::Adjoint<T> x;
    x.g = products;
    x.row = row_.data() + tile.row0;
    kernel::add_difference_columns(dnas, unas, ratio_.data() + tile.row0, col_.data() + tile.col0,
                                   x, sums_.data() + tile.col0);
  }

  void share(const SlotShare& share) { share.complete_lines(std::span<double>(sums_)); }

  double total() const { return std::accumulate(sums_.begin(), sums_.end(), 0.0); }

 private:
  PooledVector<double> col_;
  PooledVector<T> row_;          // −δ
  PooledVector<double> ratio_;   // π_dnas = π_unas exp(ratio_i − g_j)
  PooledVector<double> factor_;  // ξ_ij = π_dnas factor_i
  PooledVector<double> sums_;    // by key; each key belongs to one lane, also in col_
};

}  // namespace attn
