#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pass/pass.hpp"

/// Attention in one pass over the scores: the memory of a panel, and every score made once.
namespace attn {

/// Whether all of `observers` take rows before they are normalised (Observer::by_row).
template <class T>
bool all_by_row(const std::vector<Observer<T>*>& observers);

/// A source of tiles of exp(s), made or kept, in place of the scores' own.
template <class T>
class ExponentialTiles {
 public:
  virtual ~ExponentialTiles() = default;

  /// Those of one tile, in `room` or elsewhere; it begins at a multiple of row_tile_cols and of the
  /// blocks of row_pass_partition. One thread at a time asks for tiles of one block.
  virtual MatrixView<const T> tile(const TileRange& range, MatrixView<T> room,
                                   typename Scores<T>::Scratch& scratch) = 0;
};

/// Rows completed by blocks of queries, tile by tile: f_i = LSE_j(s_ij − g_j).
template <class T>
struct RowPass {
  const Scores<T>* scores = nullptr;
  std::span<double> row;        ///< f (Lq), written; −inf for a query with nothing allowed
  std::span<const double> col;  ///< g (Lk), −inf: a closed key; empty: all 0
  std::vector<Observer<T>*> observers;
  const RowSelection* rows = nullptr;  ///< as Pass::rows
  /// Null, or exp(s) of these scores, taken in their place; only where there is a g.
  ExponentialTiles<T>* exponentials = nullptr;
};

/// Whether run_rows can run it: there is no g, or scores and g are near enough to 0 for exp(s) and
/// exp(−g) to be taken apart.
template <class T>
bool can_run_rows(const RowPass<T>& pass);

/// Runs it: the running softmax over tiles, or plain exponentials where Scores::near_zero. What is
/// gathered by row follows tile by tile, and is rescaled when a row's maximum grows and at the end;
/// other observers see the block's tiles once its rows are complete. What either gathers has the
/// same bits whatever the others are, whichever rows are chosen, and for any number of threads.
/// Throws what the scores and observers throw.
template <class T>
void run_rows(const RowPass<T>& pass, int threads);

/// How run_rows cuts its blocks where some observers are not by_row, or there are
/// `exponentials`, and how
/// many columns a tile of theirs has.
constexpr Index row_tile_cols = 256;
Partition row_pass_partition(Index rows, Index cols, std::size_t element_size);

/// Bytes of scratch memory of run_rows, observers not counted.
std::int64_t row_pass_bytes(Index rows, Index cols, std::size_t element_size, bool by_row_alone,
                            int threads);

/// dnas: g_j = LSE_i s_ij and f_i = LSE_j(s_ij − g_j), by panels of all queries × some keys: a
/// panel completes E_ij = exp(s_ij − m_j) and c_j = Σ_i E_ij while it is in cache and shows E_ij /
/// c_j, whose row sums r_i = Σ_j E_ij / c_j = exp f_i are complete, and divided by, after the last
/// one. Queries whose r_i is so small that exponentials which count were flushed to 0 (no key
/// prefers them) are left with nothing gathered and listed in ascending order: for them f and the
/// weights are still to be found, from g. `row` (Lq; empty: g alone) and `col` (Lk) are written,
/// −inf where nothing is allowed. Bits and errors as above.
template <class T>
std::vector<Index> one_pass_columns(const Scores<T>& scores, std::span<double> row,
                                    std::span<double> col,
                                    const std::vector<Observer<T>*>& observers, int threads);

/// hnas: the mixture hybrid · dnas + (1 − hybrid) · softmax of the same panels, 0 < hybrid < 1.
/// Softmax takes exp(s_ij − M) = E_ij exp(m_j − M) from them, M the largest score met so far, which
/// what has been gathered is rescaled to as it grows. The two are shown apart, the weights of dnas
/// to the first half of the observers' slots, those of softmax to the other, as their rows have
/// different factors. Queries are left where either sum is too small: also where all scores are 41
/// below the largest of all. `unas_row` (Lq), LSE_j s_ij, is written too.
template <class T>
std::vector<Index> one_pass_hybrid(const Scores<T>& scores, double hybrid, std::span<double> row,
                                   std::span<double> unas_row, std::span<double> col,
                                   const std::vector<Observer<T>*>& observers, int threads);

/// How either cuts its panels as observers see it, in few slots, as they keep a sum by row for
/// each. `parts`: 1 for one_pass_columns, 0 where its `row` is empty, 2 for one_pass_hybrid.
Partition one_pass_columns_partition(Index rows, Index cols, std::size_t element_size,
                                     Index parts = 1);

/// Bytes of scratch memory of either, observers not counted.
std::int64_t one_pass_columns_bytes(Index rows, Index cols, std::size_t element_size, Index parts,
                                    int threads);

}  // namespace attn
