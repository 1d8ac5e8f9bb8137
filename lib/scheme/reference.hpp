#pragma once

#include <cstdint>
#include <vector>

#include "scheme/scheme.hpp"
#include "score/energy.hpp"

/// The same mathematics as plain loops over whole matrices in long double: what everything else is
/// tested against. Written from the formulas of SPEC.md §1-2 alone, sharing no code with the tiles.
namespace attn::reference {

struct Matrix {
  Index rows = 0;
  Index cols = 0;
  std::vector<long double> values;

  Matrix() = default;
  Matrix(Index row_count, Index col_count, long double fill = 0)
      : rows(row_count),
        cols(col_count),
        values(static_cast<std::size_t>(row_count * col_count), fill) {}
  long double& operator()(Index i, Index j) {
    return values[static_cast<std::size_t>(i * cols + j)];
  }
  long double operator()(Index i, Index j) const {
    return values[static_cast<std::size_t>(i * cols + j)];
  }
};

/// s_ij of SPEC.md §1 from q (Lq,d), k (Lk,d); `bias` and `mask` are (Lq,Lk) or empty (0 × 0).
Matrix scores(EnergyKind kind, double scale, const Matrix& q, const Matrix& k, const Matrix& bias,
              const Matrix& mask, Causal causal);

struct Result {
  Matrix weights;                     ///< (Lq,Lk)
  std::vector<long double> row;       ///< f; hnas: dnas's
  std::vector<long double> col;       ///< g
  std::vector<long double> unas_row;  ///< hnas only
};

/// The weights under a scheme; for sinkhorn exactly `iterations` of them.
Result attend(const Matrix& scores, Scheme scheme, double hybrid, Index iterations);

/// Σ_j π_ij v_j.
Matrix output(const Matrix& weights, const Matrix& v);

/// Σ_i π_ij.
std::vector<long double> column_sums(const Matrix& weights);

/// −Σ_j π_ij log π_ij.
std::vector<long double> row_entropies(const Matrix& weights);

}  // namespace attn::reference
