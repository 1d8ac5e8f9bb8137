#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "score/packing.hpp"
#include "score/seen_rows.hpp"
#include "tensor/view.hpp"

namespace attn {

/// A norm of the queries or keys u of one head, after their projection: with
/// r = 1 / sqrt(mean (u − μ)² + ε),
///
///   n_c = w_c (u_c − μ) r + b_c
///
/// where μ is the mean of u in a layer norm, and 0 in an RMS norm.
struct HeadNorm {
  bool centred = false;    ///< a layer norm
  bool all_heads = false;  ///< the means are over the channels of all heads
  double epsilon = 0;
  std::vector<double> weights;  ///< by head, (heads, d); or (d), the same for all heads
  std::vector<double> bias;     ///< like weights, or empty
};

/// Rotary positions (Su et al. 2021): at position p, channels a and b of pair i become
///
///   (a cos pθ_i − b sin pθ_i, b cos pθ_i + a sin pθ_i) · factor_i
///
/// Pair i is channels i and i + pairs, or 2i and 2i + 1 if they are interleaved. Further channels
/// stay as they are.
struct Rotary {
  std::vector<double> frequencies;  ///< θ, in radians per position
  std::vector<double> factors;      ///< of each pair
  bool interleaved = false;

  Index pairs() const { return std::ssize(frequencies); }
};

/// What a model does to queries or keys between their projection and their product: first the
/// norm, then the rotation.
struct HeadTransform {
  std::optional<HeadNorm> norm;
  std::optional<Rotary> rotary;

  bool over_heads() const { return norm && norm->all_heads; }
};

/// The positions of consecutive queries or keys, counted from the first key of their sequence.
struct RowPositions {
  Index first = 0;  ///< of the first row: its position, or its number in the packed problem
  const Packing* packing = nullptr;
  bool of_keys = false;

  Index at(Index row) const {
    if (packing == nullptr) return first + row;
    return of_keys ? packing->position_of_key(first + row)
                   : packing->position_of_query(first + row);
  }
};

/// Consecutive rows of a head, and how they are transformed.
struct HeadRows {
  const HeadTransform* transform = nullptr;  ///< null: not at all
  Index head = 0;                            ///< among `heads`
  Index heads = 1;                           ///< those of the projection's weights
  RowPositions positions;
  const double* moments = nullptr;  ///< μ and r of each row, for a norm over all heads
  SeenRows seen = {};               ///< all others become 0, and have gradients of 0
  Index first = 0;                  ///< the first row, as `seen` counts

  bool sees(Index row) const { return seen.has(first + row); }
};

/// Turns the mean and the sum of squared deviations of `count` channels of each row, (rows, 2),
/// into those of these channels and the channels of u (rows, d). If the norm is not centred, means
/// stay 0. Error: that of the sum of d squares in float64.
template <class T>
void add_moments(const HeadNorm& norm, Index count, MatrixView<const T> u,
                 std::span<double> moments, int threads);

/// Turns them into μ and r, which are 0 for rows that are not seen. Throws Error(numerical) naming
/// what() and the row if a sum of squares is beyond float64.
void finish_moments(const HeadRows& with, Index count, std::span<double> moments,
                    const std::function<std::string()>& what);

/// Transforms the rows of a head (rows, d) in place. Every element is computed in float64 and
/// rounded once. Error besides: that of add_moments; and of a rotation, the rounding of the angle
/// pθ in float64, at most 2⁻⁵³ p θ radians, which is 1e-4 θ at p = 2⁴⁰. The bits do not depend on
/// `threads`. Throws Error(numerical) naming what() and the row of a result beyond T's range; with
/// ε = 0 that is also a row without deviations.
template <class T>
void transform_rows(const HeadRows& with, MatrixView<T> rows, int threads,
                    const std::function<std::string()>& what);

/// Rotates the gradient of transformed rows back, in place: the adjoint of the rotation. Error: as
/// transform_rows.
template <class T>
void rotate_back(const HeadRows& with, MatrixView<T> grad, int threads);

/// Adds the part of a head to the means over the channels of the norm, (rows, 4) with zeros before
/// the first head: per row μ, r, and the means of w dn (u − μ) r and of w dn, from u and the
/// gradient dn of the norm of this head.
template <class T>
void add_norm_gradient_means(const HeadRows& with, MatrixView<const T> u, MatrixView<const T> grad,
                             std::span<double> means, int threads);

/// The gradients of the norm's weights and bias in the channels of a head, summed over its rows in
/// float64: dw_c = Σ_i dn_ic (u_ic − μ_i) r_i, db_c = Σ_i dn_ic. A gradient without data is not
/// computed. `weights` and `bias` are (1, d), or (1, heads · d), of which these channels are
/// written.
template <class T>
void norm_parameter_gradients(const HeadRows& with, MatrixView<const T> u, MatrixView<const T> grad,
                              std::span<const double> means, MatrixView<T> weights,
                              MatrixView<T> bias);

/// Turns u, the rows of a head, into their gradient, from the means of all heads of the norm:
/// du = r (w dn − mean(w dn) − (u − μ) r mean(w dn (u − μ) r)), without the first mean in an RMS
/// norm. Error: one rounding to T and those of float64.
template <class T>
void differentiate_norm(const HeadRows& with, MatrixView<const T> grad,
                        std::span<const double> means, MatrixView<T> u, int threads);

}  // namespace attn
