#pragma once

#include <memory>

#include "common/operand.hpp"
#include "score/matrix_source.hpp"

namespace attn::tools {

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
template <class T>
std::shared_ptr<OperandMatrix<T>> matrix_source(const Operand& operand, Index problem,
                                                const TileRange& own, std::int64_t dense_limit);

/// Bytes that a source takes at `element_size`; those read by tiles take a few more per thread.
std::int64_t matrix_source_bytes(const Operand& operand, std::size_t element_size,
                                 std::int64_t dense_limit);

}  // namespace attn::tools
