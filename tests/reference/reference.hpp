#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "scheme/scheme.hpp"
#include "score/energy.hpp"

/// The same mathematics as plain loops over whole matrices in long double: everything else is
/// tested against it. Written only from the formulas of MATHEMATICS.md §1-2, sharing no code with
/// the tiles.
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

/// Energies (Lq,Lk) of q (Lq,dq) and k (Lk,dk), without a scale.
Matrix energies(EnergyKind kind, const Matrix& q, const Matrix& k);
Matrix bilinear_energies(const Matrix& q, const Matrix& k, const Matrix& w);
/// w1 (A,dq+dk), w2 (A,1), b1 (A,1) or empty.
Matrix mlp_energies(const Matrix& q, const Matrix& k, const Matrix& w1, const Matrix& w2,
                    const Matrix& b1);

/// The terms that turn energies into scores. Matrices are (Lq,Lk) or empty (0 × 0).
struct Terms {
  double scale = 1;
  double softcap = 0;  ///< 0: none
  Matrix bias;
  Matrix mask;
  Causal causal = Causal::none;
  Window window;
  std::optional<Index> query_offset;  ///< absent: Lk − Lq for bottom_right, else 0
  Matrix preference;
  Matrix rel_bias;  ///< (buckets,1), as in T5
  Index max_distance = 128;
  double alibi = 0;  ///< the slope
};

/// T5's bucket by definition, in long double: the last whose first distance is at most the given
/// one.
Index t5_bucket(Index relative, bool bidirectional, Index buckets, Index max_distance);

/// s_ij of MATHEMATICS.md §1-2.
Matrix scores(const Matrix& energies, const Terms& terms);
Matrix scores(EnergyKind kind, double scale, const Matrix& q, const Matrix& k, const Matrix& bias,
              const Matrix& mask, Causal causal);

/// x w + 1·biasᵀ for x (L,D), w (D,d), bias (d,1) or empty.
Matrix project(const Matrix& x, const Matrix& w, const Matrix& bias);

/// p_ij = u_ij exp(s_ij) / Σ_j u_ij exp(s_ij) as in FD (17), 0 for a row with nothing allowed.
Matrix fenchel_weights(const Matrix& scores, const Matrix& preference);

/// p_qt = Σ_i u_qi p(t|i) with p(t|i) ∝_t exp(s_qt − M(t,i)) as in FD (24, 37), for costs M over γ
/// (Lk,Lk), with the target as row. u is the preference (Lq,Lk) of the keys whose score is not
/// −inf, divided by its sum; empty: uniform. 0 for a row without a preference.
Matrix transport_weights(const Matrix& scores, const Matrix& preference, const Matrix& cost);

/// p(t|i) of one query (targets as rows), 0 for a source that can go nowhere.
Matrix transport_conditionals(const Matrix& scores, Index query, const Matrix& cost);

/// u of one query.
std::vector<long double> transport_shares(const Matrix& scores, const Matrix& preference,
                                          Index query);

struct Result {
  Matrix weights;                     ///< (Lq,Lk)
  std::vector<long double> row;       ///< f; hnas: dnas's
  std::vector<long double> col;       ///< g
  std::vector<long double> unas_row;  ///< hnas only
};

/// The weights under a scheme; sinkhorn runs exactly `iterations` iterations.
Result attend(const Matrix& scores, Scheme scheme, double hybrid, Index iterations);

/// Σ_j π_ij v_j.
Matrix output(const Matrix& weights, const Matrix& v);

/// Σ_i π_ij.
std::vector<long double> column_sums(const Matrix& weights);

/// −Σ_j π_ij log π_ij.
std::vector<long double> row_entropies(const Matrix& weights);

}  // namespace attn::reference
