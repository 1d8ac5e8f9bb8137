#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "score/matrix_source.hpp"
#include "tensor/view.hpp"

namespace attn {

/// What two vectors have to do with each other, before mask and bias, scale included (SPEC.md §1).
template <class T>
class Energy {
 public:
  virtual ~Energy() = default;

  virtual Index rows() const = 0;  ///< queries
  virtual Index cols() const = 0;  ///< keys

  /// Writes the energies of `range` to `out` (range.rows × range.cols). May be called from several
  /// threads at once; the bits depend on the range alone. Where bound() is beyond the format,
  /// results may be NaN or infinite: Scores looks at each.
  virtual void fill(const TileRange& range, MatrixView<T> out) const = 0;

  /// Writes exp(energy) instead, for energies of at most 80 in magnitude, adding to row_sum_i and
  /// col_sum_j (at least one is null) what there is in row i and in column j, and to row_product_i
  /// (null, or beside a row_sum) Σ_j energy_ij exp(energy_ij). False: not offered for this range,
  /// nothing is done.
  virtual bool fill_exponentials(const TileRange& range, MatrixView<T> out, double* row_sum,
                                 double* col_sum, double* row_product) const {
    static_cast<void>(range), static_cast<void>(out);
    static_cast<void>(row_sum), static_cast<void>(col_sum), static_cast<void>(row_product);
    return false;
  }

  /// No energy, nor any number on the way to it, is larger in magnitude; +inf: not known.
  virtual double bound() const = 0;

  /// No energy is larger in magnitude, whatever is met on the way to it; +inf: not known.
  virtual double magnitude() const { return bound(); }

  /// Whether an energy of -inf stands for a forbidden pair (ready-made scores) rather than for a
  /// number beyond the format.
  virtual bool may_forbid() const { return false; }
};

enum class EnergyKind {
  dot,         ///< scale·⟨q,k⟩
  scaled_dot,  ///< scale·⟨q,k⟩/√d
  gaussian,    ///< −scale·½‖q−k‖²
};

/// Energies of queries q (Lq, d) and keys k (Lk, d), finite, in one matrix product per tile. The
/// memory of q and k must outlive the energy. `scale` is finite. Error: that of a dot product of
/// length d in T; gaussian centres q and k on their common mean first, so an offset of all points
/// costs no digits, and keeps copies of both. (TN §1.2; SPEC.md §1)
template <class T>
std::unique_ptr<Energy<T>> make_product_energy(EnergyKind kind, MatrixView<const T> q,
                                               MatrixView<const T> k, double scale);

/// Bytes that make_product_energy allocates.
std::int64_t product_energy_bytes(EnergyKind kind, Index rows, Index cols, Index depth,
                                  std::size_t element_size);

/// scale·q_iᵀ W k_j for q (Lq, dq), k (Lk, dk), w (dq, dk), all finite. The cheaper of q W and k Wᵀ
/// is made at once, on up to `threads` threads by a partition fixed by the shape, then the tiles
/// are products as above. The memory of q, k and w must outlive the energy. Error: that of two dot
/// products, (dq + dk + 2) roundings of |scale|·‖q_i‖·‖W‖·‖k_j‖, ‖W‖ the Frobenius norm. Throws
/// Error(input) where the shapes disagree. (TN §1.2; SPEC.md §1)
template <class T>
std::unique_ptr<Energy<T>> make_bilinear_energy(MatrixView<const T> q, MatrixView<const T> k,
                                                MatrixView<const T> w, double scale,
                                                int threads = 1);

/// Bytes that make_bilinear_energy allocates.
std::int64_t bilinear_energy_bytes(Index rows, Index cols, Index q_depth, Index k_depth,
                                   std::size_t element_size);

/// The weights of the mlp energy.
template <class T>
struct MlpWeights {
  MatrixView<const T> w1;   ///< (A, dq + dk): dq columns for the query, then dk for the key
  std::span<const T> w2;    ///< (A)
  std::span<const T> bias;  ///< b1 (A), or empty: none
};

/// scale·w2ᵀ tanh(W1[q_i; k_j] + b1) for q (Lq, dq), k (Lk, dk), all finite. W1's halves times q
/// and k are made at once, as above and O((Lq + Lk)·A) of memory; a tile costs A tanh per pair.
/// Nothing outside is referred to afterwards. Error: |scale|·Σ|w2_a| times that of the arguments (a
/// dot product of length dq + dk, and what kernel::tanh_energy adds). An argument beyond the format
/// makes the energies of its query or key NaN. Throws Error(input) where the shapes disagree. (TN
/// §1.2; SPEC.md §1)
template <class T>
std::unique_ptr<Energy<T>> make_mlp_energy(MatrixView<const T> q, MatrixView<const T> k,
                                           const MlpWeights<T>& weights, double scale,
                                           int threads = 1);

/// Bytes that make_mlp_energy allocates; `hidden` is A.
std::int64_t mlp_energy_bytes(Index rows, Index cols, Index hidden, std::size_t element_size);

/// 0 for every pair: for asking what mask, bias and causality allow where there are no vectors.
template <class T>
std::unique_ptr<Energy<T>> make_zero_energy(Index rows, Index cols);

/// scale × ready-made scores / divisor; their -inf stays -inf whatever these are. A divisor ε > 0
/// makes of −cost the scores −cost/ε, rounded once, as a product with 1/ε is not. `scores` must
/// outlive it.
template <class T>
std::unique_ptr<Energy<T>> make_stored_energy(const MatrixSource<T>& scores, Index rows, Index cols,
                                              double scale, double divisor = 1);

}  // namespace attn
