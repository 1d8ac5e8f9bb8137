#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "score/matrix_source.hpp"
#include "tensor/pooled_vector.hpp"
#include "tensor/view.hpp"

namespace attn {

/// Queries and keys for which an energy is undefined, ascending, and why: "is 0, which has no
/// cosine". Their pairs have an energy of −inf; require_defined says whether that matters.
struct UndefinedLines {
  PooledVector<Index> rows, cols;
  std::string why;
};

/// The score of each query–key pair before mask and bias, scale included (MATHEMATICS.md §1).
template <class T>
class Energy : public FromPool {
 public:
  virtual ~Energy() = default;

  virtual Index rows() const = 0;  ///< queries
  virtual Index cols() const = 0;  ///< keys

  /// Writes the energies of `range` to `out` (range.rows × range.cols). Thread-safe; the bits
  /// depend only on the range. If bound() is beyond the format, results may be NaN or infinite, and
  /// Scores checks each.
  virtual void fill(const TileRange& range, MatrixView<T> out) const = 0;

  /// Writes exp(energy) instead, for energies of at most 80 in magnitude. Adds the sum of row i to
  /// row_sum_i and the sum of column j to col_sum_j; at least one is null. Adds Σ_j energy_ij
  /// exp(energy_ij) to row_product_i, which may be given with a row_sum only. Returns false, and
  /// does nothing, if this is not supported for `range`.
  virtual bool fill_exponentials(const TileRange& range, MatrixView<T> out, double* row_sum,
                                 double* col_sum, double* row_product) const {
    static_cast<void>(range), static_cast<void>(out);
    static_cast<void>(row_sum), static_cast<void>(col_sum), static_cast<void>(row_product);
    return false;
  }

  /// No energy and no intermediate result is larger in magnitude; +inf if unknown.
  virtual double bound() const = 0;

  /// No energy is larger in magnitude, though intermediate results may be; +inf if unknown.
  virtual double magnitude() const { return bound(); }

  /// Whether the first bound() or magnitude() reads all keys, which takes as long as the energies
  /// of a few queries.
  virtual bool bound_is_expensive() const { return false; }

  /// Whether an energy of -inf means a forbidden pair (ready-made scores) rather than a number
  /// beyond the format.
  virtual bool may_forbid() const { return false; }

  /// Null: the energy is defined for all queries and keys.
  virtual const UndefinedLines* undefined() const { return nullptr; }

  /// Whether the bits of a pair's energy are the same in any range that has the pair.
  virtual bool same_in_any_range() const { return false; }
};

enum class EnergyKind {
  dot,         ///< scale·⟨q,k⟩
  scaled_dot,  ///< scale·⟨q,k⟩/√d
  gaussian,    ///< −scale·½‖q−k‖²
};

/// Energies of queries q (Lq, d) and keys k (Lk, d), finite, in one matrix product per tile. The
/// memory of q and k must outlive the energy. `scale` is finite. The error is as for a dot product
/// of length d in T. gaussian first centres q and k on their common mean, so an offset of all
/// points costs no digits, and keeps copies of both. (TN §1.2; MATHEMATICS.md §1)
template <class T>
std::unique_ptr<Energy<T>> make_product_energy(EnergyKind kind, MatrixView<const T> q,
                                               MatrixView<const T> k, double scale);

/// scale·⟨q,k⟩ of bfloat16 numbers q and k, at up to twice the speed on CPUs with products of them,
/// and with the same bits on all others (kernel/bf16.hpp). The products are exact. Each addition
/// rounds to float32, so the error is as for a dot product of length d in float32, at most d · 2⁻²⁴
/// · |scale| Σ_c |q_c k_c|; numbers below 2⁻⁶⁰ count as 0. Keeps copies of both. Throws
/// Error(input) that names the query or key for a number that is not a bfloat16 number.
std::unique_ptr<Energy<float>> make_bf16_energy(MatrixView<const float> q,
                                                MatrixView<const float> k, double scale);

/// Bytes that make_bf16_energy allocates.
std::int64_t bf16_energy_bytes(Index rows, Index cols, Index depth);

/// Bytes that make_product_energy allocates.
std::int64_t product_energy_bytes(EnergyKind kind, Index rows, Index cols, Index depth,
                                  std::size_t element_size);

/// scale·q_iᵀ W k_j for q (Lq, dq), k (Lk, dk), w (dq, dk), all finite. The cheaper of q W and k Wᵀ
/// is computed in advance, on up to `threads` threads by a partition fixed by the shape; tiles are
/// then products as above. The memory of q, k and w must outlive the energy. The error is as for
/// two dot products: (dq + dk + 2) roundings of |scale|·‖q_i‖·‖W‖·‖k_j‖, ‖W‖ the Frobenius norm.
/// Throws Error(input) if the shapes disagree. (TN §1.2; MATHEMATICS.md §1)
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

/// scale·w2ᵀ tanh(W1[q_i; k_j] + b1) for q (Lq, dq), k (Lk, dk), all finite. The halves of W1 times
/// q and k are computed in advance, as above, in O((Lq + Lk)·A) memory; a tile costs A tanh per
/// pair. No argument needs to outlive the call. Error: |scale|·Σ|w2_a| times the error of the
/// arguments (a dot product of length dq + dk, and the error of kernel::tanh_energy). An argument
/// beyond the format makes the energies of its query or key NaN. Throws Error(input) if the shapes
/// disagree. (TN §1.2; MATHEMATICS.md §1)
template <class T>
std::unique_ptr<Energy<T>> make_mlp_energy(MatrixView<const T> q, MatrixView<const T> k,
                                           const MlpWeights<T>& weights, double scale,
                                           int threads = 1);

/// Bytes that make_mlp_energy allocates; `hidden` is A.
std::int64_t mlp_energy_bytes(Index rows, Index cols, Index hidden, std::size_t element_size);

/// 0 for every pair: finds the pairs that mask, bias and causality allow without any vectors.
template <class T>
std::unique_ptr<Energy<T>> make_zero_energy(Index rows, Index cols);

/// scale × ready-made scores / divisor; their -inf stays -inf in any case. A divisor ε > 0 turns
/// −cost into the scores −cost/ε with one rounding, unlike a product with 1/ε. `scores` must
/// outlive it.
template <class T>
std::unique_ptr<Energy<T>> make_stored_energy(const MatrixSource<T>& scores, Index rows, Index cols,
                                              double scale, double divisor = 1);

}  // namespace attn
