#pragma once

#include <cstdint>
#include <vector>

#include "score/energy.hpp"
#include "score/matrix_source.hpp"
#include "tensor/buffer.hpp"
#include "tensor/view.hpp"

namespace attn {

/// Which keys a position may see. top_left: j <= i. bottom_right: j <= i + Lk − Lq, so that the
/// last query sees every key. The two are the same for Lq = Lk.
enum class Causal { none, top_left, bottom_right };

/// How many partners each query and each key may attend to (be attended by).
struct Support {
  std::vector<Index> keys_of_query;   ///< (Lq)
  std::vector<Index> queries_of_key;  ///< (Lk)

  Index empty_queries() const;  ///< queries that may attend to no key
  Index empty_keys() const;     ///< keys that no query may attend to
  Index most_keys() const;      ///< max over queries
};

/// The scores s_ij = energy_ij + bias_ij, −inf where forbidden by mask, bias, causality or a
/// ready-made −inf (SPEC.md §1): the one place where a tile of s is made.
template <class T>
class Scores {
 public:
  struct Terms {
    const Energy<T>* energy = nullptr;
    const MatrixSource<T>* bias = nullptr;             ///< added; −inf forbids
    const MatrixSource<std::uint8_t>* mask = nullptr;  ///< 0 forbids
    Causal causal = Causal::none;
  };

  /// Scratch memory of one thread for fill.
  struct Scratch {
    Buffer<T> bias;
    Buffer<std::uint8_t> mask;
  };

  /// What `terms` points at must outlive the scores.
  explicit Scores(const Terms& terms);

  Index rows() const { return terms_.energy->rows(); }
  Index cols() const { return terms_.energy->cols(); }

  /// Writes the scores of `range`: each finite and at most max(T)/16 in magnitude, or −inf. An
  /// allowed pair whose score is beyond that throws Error(numerical) naming it; a forbidden pair
  /// may have any energy. Thread-safe with a scratch per thread; the bits depend on the range
  /// alone.
  void fill(const TileRange& range, MatrixView<T> out, Scratch& scratch) const;

  /// True where causality alone forbids every pair of `range`: it need not be looked at.
  bool empty(const TileRange& range) const;

  /// Counts of allowed pairs; O(Lq + Lk) without mask, bias and ready-made scores, else a pass over
  /// those (never over the energies of q and k).
  Support support() const;

 private:
  Index first_forbidden(Index row) const;  // the first column that causality forbids to `row`
  void allow(const TileRange& range, MatrixView<T> bias, MatrixView<std::uint8_t> allowed) const;
  Support support_by_looking() const;
  void fill_checked(const TileRange& range, MatrixView<T> out, Scratch& scratch) const;
  [[noreturn]] void refuse(Index row, Index col) const;

  Terms terms_;
  bool surely_finite_ = false;
};

}  // namespace attn
