#pragma once

#include <span>
#include <vector>

#include "scheme/scheme.hpp"
#include "score/matrix_source.hpp"
#include "tensor/view.hpp"

namespace attn {

/// Features of the same items from another source, to be gathered into a primary view.
template <class T>
struct SecondaryView {
  MatrixView<const T> features;  ///< S (m, D): untransformed they are the values
  MatrixView<const T> wk;        ///< (D, d): keys are S wk; 0 × 0: keys are S itself, d = D
  const MatrixSource<std::uint8_t>* mask = nullptr;  ///< (n, m), 0 forbids
};

template <class T>
struct MultiViewOptions {
  SchemeOptions scheme;      ///< for the weights of every view
  double scale = 1;          ///< of ⟨query, key⟩, times 1/√d
  double epsilon = 1e-5;     ///< > 0, added to the variance
  std::span<const T> gain;   ///< (D), or empty: 1
  std::span<const T> shift;  ///< (D), or empty: 0
};

/// out = LayerNorm(P + Σ_v π_v S_v) for the primary view P (n, D) and out (n, D), where π_v are the
/// weights of queries P wq (n, d) and the keys of view v under the scheme:
///
///   LayerNorm(x)_c = gain_c (x_c − mean) / √(variance + epsilon) + shift_c
///
/// over the D features of each row, variance = mean of squared deviations, in float64. wq (D, d),
/// or 0 × 0 for queries P. A query that may attend to nothing in any view keeps only P. Memory O((n
/// + m)(D + d)), one view after the other. Returns attend's result for each view. Throws
/// Error(input) if shapes disagree or epsilon is not positive, and whatever project and attend
/// throw. (MATHEMATICS.md §8; EA B)
template <class T>
std::vector<Attention> multi_view(MatrixView<const T> primary, MatrixView<const T> wq,
                                  std::span<const SecondaryView<T>> views,
                                  const MultiViewOptions<T>& options, MatrixView<T> out,
                                  int threads);

}  // namespace attn
