#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pass/row_selection.hpp"
#include "score/scores.hpp"
#include "tensor/view.hpp"

/// Everything in attention is a pass over tiles of scores that are made, used and dropped
/// (SPEC.md §2, DESIGN.md §1). A pass has a source of tiles, an order, what a panel completes while
/// it is in cache, and observers that are shown the weights. A new scheme is a new way to come by
/// potentials, a new statistic a new observer, a new energy a new source; none knows the others.
namespace attn {

/// row_panels: some queries × all keys at a time; column_panels: all queries × some keys.
enum class Order { row_panels, column_panels };

/// What a panel completes from its scores before its weights are shown.
enum class Completes {
  nothing,  ///< the weights are exp((s − g) − f) of the given potentials
  rows,     ///< f_i = LSE_j(s_ij − g_j) − log a_i; needs row_panels
  columns,  ///< g_j = LSE_i(s_ij − f_i) − log b_j; needs column_panels
};

/// One pair of potentials; −inf marks a row or column with nothing allowed, whose weights are 0.
/// An empty span is all zeros. What the pass completes is written, the other is read.
struct Component {
  double coefficient = 1;  ///< of this pair's weights in the mixture
  std::span<double> row;   ///< f (Lq)
  std::span<double> col;   ///< g (Lk)
};

/// What observers see: the weights of one tile, π_ij = Σ_c coefficient_c exp((s_ij − g_cj) − f_ci).
template <class T>
struct WeightTile {
  TileRange range;
  MatrixView<const T> weights;  ///< (range.rows, range.cols)

  /// (range.cols) or null: column j is still to be multiplied by key_factor[j]. Such tiles are
  /// shown to by_row observers alone, which fold it into what belongs to the key.
  const double* key_factor = nullptr;

  /// (range.rows) or null: row i is still to be multiplied by row_factor[i]. Such tiles are shown
  /// to observers alone that say so (takes_row_factor).
  const T* row_factor = nullptr;
};

/// How a pass cuts its panels into slots. A slot is a run of panels that one thread at a time works
/// through in order, so that what an observer accumulates per slot, and adds up over slots in their
/// order, does not depend on the number of threads. It follows from the shape alone.
struct Partition {
  Order order = Order::row_panels;
  Index rows = 0;
  Index cols = 0;
  Index panel = 1;  ///< lines (rows or columns) per panel
  Index panels = 0;
  Index slots = 0;

  /// Panels [first, last) of `slot`.
  Index first_panel(Index slot) const { return slot * panels / slots; }
};

/// Tiles of a panel run along its long axis in steps of this length.
constexpr Index pass_tile_length = 512;

/// For float32 (element_size 4) or float64 (8) scores of that shape.
Partition partition_of(Order order, Index rows, Index cols, std::size_t element_size);

/// Looks at the weights while a tile is in cache.
template <class T>
class Observer {
 public:
  virtual ~Observer() = default;

  /// Before the first tile.
  virtual void start(const Partition& partition) { static_cast<void>(partition); }

  /// Calls for different slots may come at once; those for one slot come in the order of its
  /// panels, within a panel along the other axis. Tiles with nothing allowed may be left out, and
  /// rows and columns without any are never shown otherwise: an observer starts from zeros.
  virtual void observe(const WeightTile<T>& tile, Index slot) = 0;

  /// True: tiles with nothing allowed are shown too, as zeros (for what writes weights down).
  virtual bool wants_empty_tiles() const { return false; }

  /// True: what is gathered is linear in each row of weights and kept by row, so that rows may be
  /// shown before they are normalised, their factors coming later by scale_rows. Then panels may
  /// come in either order.
  virtual bool by_row() const { return false; }

  /// True: tiles may come with a row_factor, which costs less than to multiply them by it.
  virtual bool takes_row_factor() const { return false; }

  /// What `slot` has gathered of queries [first, first + count) is multiplied by factors[0, count),
  /// where 0 leaves 0 whatever was there. Of by_row observers only.
  virtual void scale_rows(Index first, Index count, const T* factors, Index slot) {
    static_cast<void>(first), static_cast<void>(count), static_cast<void>(factors);
    static_cast<void>(slot);
  }

  /// True: wants nothing but each row's entropy H_i = −Σ_j π_ij log π_ij. A pass that finds it on
  /// its way tells it by row_entropies, once for every row, and shows no weights; any other shows
  /// weights as usual.
  virtual bool takes_row_entropies() const { return false; }
  virtual void row_entropies(Index first, Index count, const double* entropies) {
    static_cast<void>(first), static_cast<void>(count), static_cast<void>(entropies);
  }

  /// After the last tile and the last factor, on one thread: adds up the slots. Of a pass that is
  /// resumed once more at the end of that.
  virtual void finish() {}
};

template <class T>
struct Pass {
  const Scores<T>* scores = nullptr;
  Order order = Order::row_panels;
  Completes completes = Completes::nothing;
  std::vector<Component> components;  ///< one, or the parts of a mixture (rows or nothing only)
  std::span<const double>
      log_marginal;  ///< log a (Lq) or log b (Lk) of what is completed; empty: 0
  std::vector<Observer<T>*> observers;

  /// Of these queries alone weights are shown, by tiles of neighbouring ones among them; only the
  /// panels they lie in are made, so what a pass completes is then found for those only. What is
  /// shown is the same, to the last bit, as without. Row panels only; null: all queries.
  const RowSelection* rows = nullptr;

  /// Observers go on from what they have gathered: they are not started anew.
  bool resumes = false;
};

/// Runs a pass on up to `threads` threads. Results are the same to the last bit for any number.
/// Throws std::logic_error where order and completion do not fit, and what the scores throw.
template <class T>
void run(const Pass<T>& pass, int threads);

/// Bytes of scratch memory that run takes with `threads` threads and `components` components,
/// observers not counted.
std::int64_t pass_bytes(Order order, Index rows, Index cols, std::size_t components,
                        std::size_t element_size, int threads);

}  // namespace attn
