#pragma once

#include <cstdint>

#include "common/operand.hpp"
#include "pass/row_selection.hpp"
#include "score/row_source.hpp"

namespace attn::tools {

/// Neighbouring rows of the block of vectors that a problem uses, read as they are needed; the
/// first ones may take `kept_bytes` of memory. `operand` must outlive it.
template <class T>
class OperandRows final : public RowSource<T> {
 public:
  OperandRows(const Operand& operand, Index problem, RowRange rows, std::int64_t kept_bytes)
      : operand_(operand), block_(operand.block(problem)), rows_(rows), kept_bytes_(kept_bytes) {}

  Index rows() const override { return rows_.last - rows_.first; }
  Index cols() const override { return operand_.cols; }
  std::int64_t kept_bytes() const override { return kept_bytes_; }
  void read(Index first, MatrixView<T> out) const override {
    const BlockAxes axes(operand_, block_, rows_.first + first, out.rows, 0, out.cols);
    operand_.dataset.read(axes.start, axes.count, out.data);
    require_finite(operand_.dataset, axes.start, axes.count, static_cast<const T*>(out.data));
  }

 private:
  const Operand& operand_;
  Index block_;
  RowRange rows_;
  std::int64_t kept_bytes_;
};

}  // namespace attn::tools
