#pragma once

#include <memory>

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

  /// No energy, nor any number on the way to it, is larger in magnitude; +inf: not known.
  virtual double bound() const = 0;

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

/// 0 for every pair: for asking what mask, bias and causality allow where there are no vectors.
template <class T>
std::unique_ptr<Energy<T>> make_zero_energy(Index rows, Index cols);

/// scale × ready-made scores; their -inf stays -inf whatever the scale. `scores` must outlive it.
template <class T>
std::unique_ptr<Energy<T>> make_stored_energy(const MatrixSource<T>& scores, Index rows, Index cols,
                                              double scale);

}  // namespace attn
