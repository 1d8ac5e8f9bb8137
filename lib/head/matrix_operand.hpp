#pragma once

#include <memory>
#include <optional>

#include "head/operand.hpp"
#include "pass/row_selection.hpp"
#include "score/matrix_source.hpp"

namespace attn {

/// The rows of a matrix that a rank works on.
struct RankPart {
  RowRange rows;
  Index most = 0;  ///< the most rows of a rank and head; decides whether rows are held
};

template <class T>
class OperandMatrix : public MatrixSource<T> {
 public:
  /// The smallest finite element if it is below 0, else 0.
  virtual double least() const = 0;
};

/// The part `own` of a matrix operand (mask, bias, scores, weights), along the axes that it has, as
/// a source for one problem: held in memory if the whole matrix takes up to `dense_limit` bytes,
/// else read by tiles. No other part is read. float and double sources refuse NaN and +inf, naming
/// the element. `operand` must outlive it.
///
/// With `rank`, all of this thread's ranks call the function; each reads, checks and may hold its
/// rows of a matrix with several rows. bound() and least() are still those of the whole matrix.
/// Other rows are read by tiles.
template <class T>
std::shared_ptr<OperandMatrix<T>> matrix_source(const Operand& operand, Index problem,
                                                const TileRange& own, std::int64_t dense_limit,
                                                const std::optional<RankPart>& rank = std::nullopt);

/// Bytes that a source takes at `element_size`, for a matrix or some of its rows. Sources that read
/// by tiles take a few more per thread.
std::int64_t matrix_source_bytes(const Operand& operand, std::size_t element_size,
                                 std::int64_t dense_limit,
                                 std::optional<Index> rows = std::nullopt);

}  // namespace attn
