#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>

#include "score/allowed_counts.hpp"
#include "score/band.hpp"
#include "score/energy.hpp"
#include "score/matrix_source.hpp"
#include "score/relative_bias.hpp"
#include "score/transport_kernel.hpp"
#include "tensor/buffer.hpp"
#include "tensor/pooled_vector.hpp"
#include "tensor/view.hpp"

namespace attn {

/// No term of the scores is larger in magnitude. The bounds decide how exponentials are made, and
/// so their last bits.
struct ScoreBounds {
  double intermediate = 0;  ///< Energy::bound
  double energy = 0;        ///< Energy::magnitude
  double relative = 0;
  double bias = 0;
  double preference = 0;
};

/// The scores (MATHEMATICS.md §1-2, FD 17). Only this class makes a tile of s:
///
///   s_ij = softcap(energy_ij) + relative_ij + bias_ij + log preference_ij
///
/// and −inf where mask, bias, preference 0, causality, window or a ready-made −inf forbids the
/// pair. The cap applies only to the energy, before bias and mask, as in Gemma. Fenchel-dual
/// attention of templates t, evidence z and α is unas on the dot energy with scale α and u as
/// preference.
template <class T>
class Scores {
 public:
  struct Terms {
    const Energy<T>* energy = nullptr;
    const MatrixSource<T>* bias = nullptr;             ///< added; −inf forbids
    const MatrixSource<std::uint8_t>* mask = nullptr;  ///< 0 forbids
    BandRule band = {};                                ///< causality and a window
    const RelativeBias<T>* relative = nullptr;  ///< added; of the energy's shape, and this `band`
    std::optional<double> softcap = std::nullopt;  ///< X > 0: X·tanh(energy/X), rounded once
    const MatrixSource<T>* preference = nullptr;   ///< u >= 0, finite: adds log u; 0 forbids
    bool same_if_rescaled = false;  ///< near_zero is false, as it depends on norms of q and k
    Index first_query = 0;          ///< the number of the first query, for messages

    /// For the scheme transport, and no part of the scores: u >= 0 of the keys as sources, absent:
    /// uniform; and the costs. A preference of 0 then forbids no pair.
    const MatrixSource<T>* sources = nullptr;
    const TransportKernel* transport = nullptr;
  };

  /// Scratch memory of one thread for fill.
  struct Scratch {
    Buffer<T> bias;
    Buffer<T> preference;
    Buffer<std::uint8_t> mask;
    Buffer<T> energy;
  };

  /// All that `terms` points to must outlive the scores. Throws Error(input) for a window,
  /// offset or softcap out of range.
  explicit Scores(const Terms& terms);

  const Terms& terms() const { return terms_; }
  Index rows() const { return terms_.energy->rows(); }
  Index cols() const { return terms_.energy->cols(); }

  /// Writes the scores of `range`: each finite and at most max(T)/16 in magnitude, or −inf. Throws
  /// Error(numerical) naming an allowed pair whose score is beyond that; a forbidden pair may have
  /// any energy. Throws Error(input) naming the query and key of a preference that is not a finite
  /// number >= 0. Thread-safe with one scratch per thread; the bits depend only on the range. A
  /// single bias is added in T; other terms are added in float64 and rounded once.
  void fill(const TileRange& range, MatrixView<T> out, Scratch& scratch) const;

  /// Throws Error(input) naming the query and key of a preference that is not a finite number >= 0.
  void require_preference(const TileRange& range, MatrixView<const T> preference) const;

  /// Whether exponentials need no maximum removed: |s| ≤ 30 is known for every allowed pair, so
  /// that sums and quotients of exponentials lie well inside float32.
  bool near_zero() const { return limits().near_zero; }

  /// A bound on the magnitude of the scores of allowed pairs; +inf if unknown.
  double magnitude() const { return limits().magnitude; }

  const ScoreBounds& bounds() const { return limits().bounds; }

  /// Whether the first call of near_zero() or magnitude() takes as long as a pass over the scores;
  /// the pass is then faster without it. Follows from the shape and the energy.
  bool limits_are_expensive() const { return terms_.energy->bound_is_expensive(); }

  /// Requires near_zero(). Writes exp(s_ij), within 1.2 ulp of exp of the rounded score, or 0 where
  /// the pair is forbidden. Adds the sum of row i to row_sum_i and the sum of column j to
  /// col_sum_j; at least one is null. Adds Σ_j s_ij exp(s_ij) to row_product_i, which may be given
  /// with a row_sum only. Otherwise like fill.
  void fill_exponentials(const TileRange& range, MatrixView<T> out, Scratch& scratch,
                         double* row_sum, double* col_sum, double* row_product = nullptr) const;

  /// Whether causality and window forbid every pair of `range`, so that it can be skipped.
  /// O(1).
  bool empty(const TileRange& range) const { return band_.empty(range); }

  /// The number of columns of `range` up to the last one in which causality and window allow a
  /// pair. O(1).
  Index cols_in_use(const TileRange& range) const { return band_.cols_in_use(range); }

  /// The pairs that causality and window allow.
  const Band& band() const { return band_; }

  /// Whether mask, bias, preference and ready-made scores forbid the same keys to all queries,
  /// decided without reading them: true if they are absent or broadcast over queries.
  bool rows_alike() const;

  /// Requires rows_alike(). For each key 1, or 0 if mask, bias, preference or ready-made scores
  /// forbid it.
  PooledVector<std::uint8_t> open_keys() const;

  /// Writes 1 for each allowed pair of `range` and 0 for the others. Thread-safe like fill; reads
  /// mask, bias, preference and ready-made scores, never the energies of q and k.
  void allowed(const TileRange& range, MatrixView<std::uint8_t> out, Scratch& scratch) const;

  /// Counts of allowed pairs; O(Lq + Lk) if rows_alike(), else a pass over allowed().
  AllowedCounts allowed_counts() const;

 private:
  // The terms read for one range.
  struct Read {
    MatrixView<T> bias;
    MatrixView<T> preference;
    MatrixView<std::uint8_t> mask;
  };

  // What is known of all scores of allowed pairs.
  struct Limits {
    ScoreBounds bounds;
    double magnitude = 0;
    bool surely_finite = false;
    bool near_zero = false;
  };

  const Limits& limits() const;
  Limits find_limits() const;
  ScoreBounds find_bounds() const;
  bool is_energy_alone(const TileRange& range) const;
  bool is_in_range(MatrixView<T> scores) const;
  Read read(const TileRange& range, Scratch& scratch, bool allowed) const;
  // By mask, bias and preference only; `may` may be the row of the mask.
  void allow_row(const Read& read, Index i, std::uint8_t* may, Index cols) const;
  void allow(const TileRange& range, const Read& read) const;
  void add(const TileRange& range, const Read& read, MatrixView<T> out) const;
  void fill_checked(const TileRange& range, MatrixView<T> out, const Read& read) const;
  AllowedCounts allowed_counts_of_one_row() const;
  AllowedCounts allowed_counts_by_scan() const;
  [[noreturn]] void refuse(Index row, Index col) const;

  Terms terms_;
  Band band_;
  mutable std::once_flag finding_limits_;
  mutable Limits limits_;
};

/// Throws Error(input) that names a query or key for which the energy is undefined, unless no pair
/// of it is allowed, or it has a mass of 0. Empty masses stand for masses above 0. Looks at the
/// mask only if there is such a line. `hint` says what leaves out a line.
template <class T>
void require_defined(const Scores<T>& scores, std::span<const double> row_masses,
                     std::span<const double> col_masses, const std::string& hint);

}  // namespace attn
