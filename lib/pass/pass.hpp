#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>

#include "pass/row_selection.hpp"
#include "pass/sink.hpp"
#include "pass/slot_share.hpp"
#include "score/scores.hpp"
#include "tensor/pooled_vector.hpp"
#include "tensor/view.hpp"

/// Everything in attention is a pass over tiles of scores that are made, used and dropped
/// (MATHEMATICS.md §2, lib/README.md). A pass has a source of tiles, an order, potentials that a
/// panel completes while it is in cache, and observers that see the weights. A new scheme is a new
/// way to compute potentials, a new statistic a new observer, a new energy a new source; none knows
/// the others.
namespace attn {

/// The potentials that a panel completes from its scores before observers see its weights.
enum class Completes {
  nothing,  ///< the weights are exp((s − g) − f) of the given potentials
  rows,     ///< f_i = LSE_j(s_ij − g_j) − log a_i; needs row_panels
  columns,  ///< g_j = LSE_i(s_ij − f_i) − log b_j; needs column_panels
};

/// One pair of potentials; −inf marks a row or column with nothing allowed, whose weights are 0. An
/// empty span is all zeros. The pass writes the potential that it completes and reads the other.
struct Component {
  double coefficient = 1;  ///< of this pair's weights in the mixture
  std::span<double> row;   ///< f (Lq)
  std::span<double> col;   ///< g (Lk)
};

/// The weights of one tile, as observers see them: π_ij = Σ_c coefficient_c exp((s_ij − g_cj) −
/// f_ci).
template <class T>
struct WeightTile {
  TileRange range;
  MatrixView<const T> weights;  ///< (range.rows, range.cols)

  /// (range.cols) or null: column j must still be multiplied by key_factor[j]. Only by_row
  /// observers see such tiles; they fold the factor into the data of the key.
  const double* key_factor = nullptr;

  /// (range.rows) or null: row i must still be multiplied by row_factor[i]. Only observers with
  /// takes_row_factor see such tiles.
  const T* row_factor = nullptr;
};

/// Sees the weights while a tile is in cache.
template <class T>
class Observer {
 public:
  virtual ~Observer() = default;

  /// Called before the first tile.
  virtual void start(const Partition& partition) { static_cast<void>(partition); }

  /// Calls for different slots may be concurrent; those for one slot come in the order of its
  /// panels, and within a panel along the other axis. Tiles with nothing allowed may be left out,
  /// and so may rows and columns with nothing allowed: an observer starts from zeros.
  virtual void observe(const WeightTile<T>& tile, Index slot) = 0;

  /// True: tiles with nothing allowed are shown too, as zeros (for observers that write weights).
  virtual bool wants_empty_tiles() const { return false; }

  /// True: results are linear in each row of weights and kept by row. Rows may then be shown before
  /// they are normalised; scale_rows supplies their factors later. Panels may then come in either
  /// order.
  virtual bool by_row() const { return false; }

  /// True: tiles may come with a row_factor, which saves their multiplication.
  virtual bool takes_row_factor() const { return false; }

  /// Multiplies the results of `slot` for queries [first, first + count) by factors[0, count); a
  /// factor of 0 leaves 0 also in place of a NaN. Called for by_row observers only.
  virtual void scale_rows(Index first, Index count, const T* factors, Index slot) {
    static_cast<void>(first), static_cast<void>(count), static_cast<void>(factors);
    static_cast<void>(slot);
  }

  /// The sums that `slot` holds by query, (Lq, any width), in memory that one_pass_columns may
  /// clear, scale and add up. Called for by_row observers only.
  virtual MatrixView<T> gathered(Index slot) {
    static_cast<void>(slot);
    return {};
  }

  /// True: `share` combines the results of ranks that have seen only their own slots. False: every
  /// rank runs the whole pass.
  virtual bool can_share() const { return false; }

  /// Called after the last tile and the last factor, before `finish`.
  virtual void share(const SlotShare& share) { static_cast<void>(share); }

  /// True: needs only each row's entropy H_i = −Σ_j π_ij log π_ij. A pass that computes it anyway
  /// calls row_entropies, once for every row, and shows no weights; any other pass shows weights as
  /// usual.
  virtual bool takes_row_entropies() const { return false; }
  virtual void row_entropies(Index first, Index count, const double* entropies) {
    static_cast<void>(first), static_cast<void>(count), static_cast<void>(entropies);
  }

  /// Called on one thread at the end: adds up the slots. A pass that resumes calls it again at its
  /// end.
  virtual void finish() {}
};

/// Observers as an argument, to which std::vector converts.
template <class T>
using ObserverList = std::type_identity_t<PooledVector<Observer<T>*>>;

/// The share that this process has in a pass with these observers.
template <class T>
SlotShare share_of(const Partition& partition, const ObserverList<T>& observers) {
  return SlotShare(partition, !std::all_of(observers.begin(), observers.end(),
                                           [](const auto* one) { return one->can_share(); }));
}

/// Hands over what the observers have gathered in the slots.
template <class T>
void share_gathered(const ObserverList<T>& observers, const SlotShare& share) {
  if (!share.divided()) return;
  for (Observer<T>* observer : observers) observer->share(share);
}

/// Completes the observers at the end of a pass.
template <class T>
void finish(const ObserverList<T>& observers) {
  for (Observer<T>* observer : observers) observer->finish();
}

template <class T>
struct Pass {
  const Scores<T>* scores = nullptr;
  Order order = Order::row_panels;
  Completes completes = Completes::nothing;
  PooledVector<Component> components;  ///< one, or the parts of a mixture (rows or nothing only)
  std::span<const double>
      log_marginal;  ///< log a (Lq) or log b (Lk) of the completed side; empty: 0
  ObserverList<T> observers;

  /// Joins the sums of the rows that are completed, see pass/sink.hpp.
  double sink = no_sink;

  /// The queries whose weights are shown, by tiles of neighbouring queries; null: all queries. Only
  /// panels with such queries are made, so potentials are completed only there. The selection
  /// changes no bit of these weights. Row panels only.
  const RowSelection* rows = nullptr;

  /// Observers continue with their sums and are not started anew.
  bool resumes = false;
};

/// Runs a pass on up to `threads` threads. Results are the same to the last bit for any number.
/// Throws std::logic_error if order and completion do not fit, and whatever the scores throw.
template <class T>
void run(const Pass<T>& pass, int threads);

/// Bytes of scratch memory that run takes with `threads` threads and `components` components,
/// without observers.
std::int64_t pass_bytes(Order order, Index rows, Index cols, std::size_t components,
                        std::size_t element_size, int threads);

}  // namespace attn
