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
  Index most = 0;  ///< rows of any rank, of any head: from which follows whether they are held
};

template <class T>
class OperandMatrix : public MatrixSource<T> {
 public:
  /// The smallest finite element if it is below 0, else 0.
  virtual double least() const = 0;
};

/// The part `own` of a matrix operand (mask, bias, scores, weights), along the axes that it has, as
/// a source for one problem: held in memory if the whole matrix takes up to `dense_limit` bytes,
/// else read by tiles. Nothing else is read. float and double sources refuse NaN and +inf, naming
/// the element. `operand` must outlive it.
///
/// `rank`: called by all of this thread's ranks, each of which reads, checks and may hold its rows
/// of a matrix that has several. bound() and least() are still those of the whole. Other rows can
/// be had, too; they are read by tiles.
template <class T>
std::shared_ptr<OperandMatrix<T>> matrix_source(const Operand& operand, Index problem,
                                                const TileRange& own, std::int64_t dense_limit,
                                                const std::optional<RankPart>& rank = std::nullopt);

/// Bytes that a source takes at `element_size`, of a matrix or of so many of its rows; those read
/// by tiles take a few more per thread.
std::int64_t matrix_source_bytes(const Operand& operand, std::size_t element_size,
                                 std::int64_t dense_limit,
                                 std::optional<Index> rows = std::nullopt);

}  // namespace attn
