#pragma once

#include <cstdint>
#include <span>

#include "pass/pass.hpp"
#include "tensor/pooled_vector.hpp"

/// Attention in one pass over the scores, which takes the memory of a panel and makes each score
/// once.
namespace attn {

/// Whether all of `observers` accept rows before they are normalised (Observer::by_row).
template <class T>
bool all_by_row(const PooledVector<Observer<T>*>& observers);

/// A source of tiles of exp(s), computed or kept, that replaces the scores.
template <class T>
class ExponentialTiles {
 public:
  virtual ~ExponentialTiles() = default;

  /// The exponentials of one tile, in `room` or elsewhere. The tile begins at a multiple of
  /// row_tile_cols and of the blocks of row_pass_partition. Only one thread at a time asks for
  /// tiles of a block.
  virtual MatrixView<const T> tile(const TileRange& range, MatrixView<T> room,
                                   typename Scores<T>::Scratch& scratch) = 0;
};

/// Completes rows by blocks of queries, tile by tile: f_i = LSE_j(s_ij − g_j).
template <class T>
struct RowPass {
  const Scores<T>* scores = nullptr;
  std::span<double> row;        ///< f (Lq), written; −inf for a query with nothing allowed
  std::span<const double> col;  ///< g (Lk), −inf masks a key; empty: all 0
  ObserverList<T> observers;
  const RowSelection* rows = nullptr;  ///< see Pass::rows
  /// Null, or exp(s) of these scores, used instead of them; only with a g.
  ExponentialTiles<T>* exponentials = nullptr;
  double sink = no_sink;  ///< joins the sums of the rows, see pass/sink.hpp

  /// Empty, or LSE_j s_ij (Lq), written as `row` is; only with a g and without `exponentials`. The
  /// weights are then hybrid · exp((s_ij − g_j) − f_i) + (1 − hybrid) · exp(s_ij − softmax_row_i).
  std::span<double> softmax_row = {};
  double hybrid = 1;
};

/// Whether every g_j > −inf is so close to 0 that exp(−g_j) exp(s) lies well inside float32 for
/// scores near zero.
bool is_near_zero(std::span<const double> col);

/// exp(−g_j), 0 for −inf.
PooledVector<double> key_factors(std::span<const double> col);

/// Whether run_rows can run the pass: there is no g, or scores and g are close enough to 0 for
/// exp(s) and exp(−g) to be computed separately.
template <class T>
bool can_run_rows(const RowPass<T>& pass);

/// Runs the pass by online softmax over tiles, or by plain exponentials where Scores::near_zero.
/// by_row observers follow tile by tile, and are rescaled when a row's maximum grows and at the
/// end. Other observers see the block's tiles once its rows are complete. The bits of an observer's
/// results depend neither on the other observers, nor on the chosen rows, nor on the number of
/// threads. Throws whatever the scores and observers throw.
template <class T>
void run_rows(const RowPass<T>& pass, int threads);

/// Bytes of scratch memory of run_rows, without observers.
std::int64_t row_pass_bytes(Index rows, Index cols, std::size_t element_size, bool by_row_alone,
                            int threads);

/// dnas: g_j = LSE_i s_ij and f_i = LSE_j(s_ij − g_j), by panels of all queries × some keys. A
/// panel completes E_ij = exp(s_ij − m_j) and c_j = Σ_i E_ij while it is in cache, and shows E_ij /
/// c_j. After the last panel, the row sums r_i = Σ_j E_ij / c_j = exp f_i are complete, and the
/// rows are divided by them. If no key prefers query i, r_i is so small that exponentials flushed
/// to 0 would count. Observers then gather nothing for query i; its index is returned, in ascending
/// order, and the caller computes its f and weights from g. Writes `row` (Lq; empty: only g is
/// wanted) and `col` (Lk), −inf where nothing is allowed. A sink joins the row sums only. Bits and
/// errors as above.
template <class T>
PooledVector<Index> one_pass_columns(const Scores<T>& scores, std::span<double> row,
                                     std::span<double> col, const ObserverList<T>& observers,
                                     int threads, double sink = no_sink);

/// Rows of dnas and hnas that sum to this or more lose nothing to flushed exponentials, which are
/// below 2⁻¹²⁶, in either type.
inline constexpr double smallest_row_sum = 0x1p-60;

/// hnas: the mixture hybrid · dnas + (1 − hybrid) · softmax from the same panels, 0 < hybrid < 1.
/// Softmax uses exp(s_ij − M) = E_ij exp(m_j − M), where M is the largest score met so far; earlier
/// results are rescaled as it grows. Observers see the weights of dnas and of softmax in different
/// slots, because their rows have different factors. A query is returned if either sum is too
/// small, for example if all its scores are 41 below the largest of all. Also writes `unas_row`
/// (Lq), LSE_j s_ij.
template <class T>
PooledVector<Index> one_pass_hybrid(const Scores<T>& scores, double hybrid, std::span<double> row,
                                    std::span<double> unas_row, std::span<double> col,
                                    const ObserverList<T>& observers, int threads,
                                    double sink = no_sink);

/// The slots of the observers of one_pass_columns and one_pass_hybrid: for each part, one slot per
/// thread and one for the total. `parts`: 1 for dnas, 2 for hnas.
Partition one_pass_columns_places(Index rows, Index cols, std::size_t element_size, Index parts,
                                  int threads);

/// Bytes of scratch memory of either function, without observers.
std::int64_t one_pass_columns_bytes(Index rows, Index cols, std::size_t element_size, Index parts,
                                    int threads);

}  // namespace attn
