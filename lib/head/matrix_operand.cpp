#include "head/matrix_operand.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

#include "attnkit/error.hpp"
#include "parallel/ranks.hpp"
#include "tensor/buffer.hpp"
#include "tensor/pieces.hpp"

namespace attn {
namespace {

// The zeros and ones of a mask need no check.
void require_scores(const Operand&, const BlockAxes&, const std::uint8_t*, Index) {}

// A conversion to float32 that turned a number into −inf, or into a 0 that forbids, would mask a
// pair.
void require_kept(const Operand& operand, const BlockAxes& axes) {
  const double forbids = operand.zero_forbids ? 0.0 : -std::numeric_limits<double>::infinity();
  const double sign = operand.of_cost ? -1 : 1;
  const Index limit = piece_elements(sizeof(double));
  const Buffer<double> stored(std::min(limit, element_count(axes.count)));
  for_each_piece(axes.count, limit, [&](const Piece& piece) {
    Shape start = axes.start;
    for (std::size_t axis = 0; axis < start.size(); ++axis) start[axis] += piece.start[axis];
    operand.dataset.read(start, piece.count, stored.data());
    for (Index n = 0; n < piece.size; ++n) {
      const auto narrow = static_cast<double>(static_cast<float>(sign * stored[n]));
      if (narrow != forbids || sign * stored[n] == forbids) continue;
      refuse_beyond_float32(operand.dataset, stored[n], element_text(start, piece.count, n),
                            operand.zero_forbids || operand.of_cost
                                ? "--precision f64"
                                : "-inf forbids a pair; --precision f64 accepts the number");
    }
  });
}

template <class T>
void require_scores(const Operand& operand, const BlockAxes& axes, const T* values, Index size) {
  if (operand.finite) {
    for (Index n = 0; n < size; ++n) {
      if (std::isfinite(values[n])) continue;
      refuse_element(operand.dataset, axes.start, axes.count, n, values[n], "finite numbers");
    }
    return;
  }
  // The forbidding value is also the least allowed one.
  const T forbids = operand.zero_forbids ? T{0} : -std::numeric_limits<T>::infinity();
  const T largest = operand.from_zero ? T{0} : std::numeric_limits<T>::max();
  bool forbidden = false;
  for (Index n = 0; n < size; ++n) {
    // NaN fails the comparisons.
    if (!(values[n] >= forbids && values[n] <= largest)) {
      if (operand.of_cost) {
        refuse_element(operand.dataset, axes.start, axes.count, n, -values[n],
                       operand.from_zero ? "numbers >= 0 or inf" : "finite numbers or inf");
      }
      refuse_element(operand.dataset, axes.start, axes.count, n, values[n],
                     operand.zero_forbids ? "finite numbers >= 0" : "finite numbers or -inf");
    }
    forbidden = forbidden || values[n] == forbids;
  }
  const bool narrowed = sizeof(T) == sizeof(float) && operand.dataset.dtype() == DType::f64;
  if (forbidden && narrowed) require_kept(operand, axes);
}

// The extent of the finite elements.
struct Extent {
  double least = 0;    // 0 if no element is below 0
  double largest = 0;  // in magnitude

  void join(const Extent& other) {
    least = std::min(least, other.least);
    largest = std::max(largest, other.largest);
  }

  void add(const std::uint8_t*, Index) { largest = 1; }

  template <class T>
  void add(const T* values, Index size) {
    for (Index n = 0; n < size; ++n) {
      if (std::isinf(values[n])) continue;
      const auto value = static_cast<double>(values[n]);
      largest = std::max(largest, std::abs(value));
      least = std::min(least, value);
    }
  }
};

// Scores of a cost are its negatives. Masks stay as they are.
template <class T>
void take_sign(const Operand& operand, T* values, Index size) {
  if constexpr (std::is_floating_point_v<T>) {
    for (Index n = 0; operand.of_cost && n < size; ++n) values[n] = -values[n];
  } else {
    static_cast<void>(operand), static_cast<void>(values), static_cast<void>(size);
  }
}

// The part along the axes that the operand has; the others have length 1. Nothing is read for a
// sequence without queries or keys.
TileRange own_block(const Operand& operand, const TileRange& own) {
  if (own.rows == 0 || own.cols == 0) return {0, 0, 0, 0};
  TileRange block{0, 1, 0, 1};
  if (operand.rows > 1) block.row0 = own.row0, block.rows = own.rows;
  if (operand.cols > 1) block.col0 = own.col0, block.cols = own.cols;
  return block;
}

template <class T>
class HeldMatrix final : public OperandMatrix<T> {
 public:
  HeldMatrix(const Operand& operand, Index block, const TileRange& own)
      : values_(own.rows * own.cols) {
    const BlockAxes axes(operand, block, own.row0, own.rows, own.col0, own.cols);
    operand.dataset.read(axes.start, axes.count, values_.data());
    take_sign(operand, values_.data(), values_.size());
    require_scores(operand, axes, values_.data(), values_.size());
    extent_.add(values_.data(), values_.size());
    source_.emplace(values_.data(), operand.rows > 1 ? own.cols : 0, operand.cols > 1 ? 1 : 0,
                    extent_.largest);
  }
  void read(const TileRange& range, MatrixView<T> out) const override { source_->read(range, out); }
  double bound() const override { return extent_.largest; }
  double least() const override { return extent_.least; }
  bool rows_alike() const override { return source_->rows_alike(); }
  bool cols_alike() const override { return source_->cols_alike(); }
  const Extent& extent() const { return extent_; }

 private:
  Buffer<T> values_;
  Extent extent_;
  std::optional<BroadcastMatrix<T>> source_;
};

template <class T>
class TiledMatrix final : public OperandMatrix<T> {
 public:
  // Checks the elements of some rows once, so that errors do not depend on which tiles a pass
  // reads.
  TiledMatrix(const Operand& operand, Index block, const TileRange& own, RowRange checked)
      : operand_(operand), block_(block), own_(own) {
    constexpr Index rows_at_once = 64;
    Buffer<T> values(std::min(rows_at_once, checked.last - checked.first) * own.cols);
    for (Index row0 = checked.first; row0 < checked.last; row0 += rows_at_once) {
      const Index rows = std::min(rows_at_once, checked.last - row0);
      const BlockAxes axes(operand, block, own.row0 + row0, rows, own.col0, own.cols);
      operand.dataset.read(axes.start, axes.count, values.data());
      take_sign(operand, values.data(), rows * own.cols);
      require_scores(operand, axes, values.data(), rows * own.cols);
      extent_.add(values.data(), rows * own.cols);
    }
  }

  void read(const TileRange& range, MatrixView<T> out) const override {
    const Index rows = operand_.rows > 1 ? range.rows : 1;
    const Index cols = operand_.cols > 1 ? range.cols : 1;
    const BlockAxes axes(operand_, block_, operand_.rows > 1 ? own_.row0 + range.row0 : 0, rows,
                         operand_.cols > 1 ? own_.col0 + range.col0 : 0, cols);
    Buffer<T> values(rows * cols);
    operand_.dataset.read(axes.start, axes.count, values.data());
    take_sign(operand_, values.data(), values.size());
    require_scores(operand_, axes, values.data(), values.size());
    const BroadcastMatrix<T> tile(values.data(), rows > 1 ? cols : 0, cols > 1 ? 1 : 0);
    tile.read(TileRange{0, range.rows, 0, range.cols}, out);
  }
  double bound() const override { return extent_.largest; }
  double least() const override { return extent_.least; }
  bool rows_alike() const override { return operand_.rows == 1; }
  bool cols_alike() const override { return operand_.cols == 1; }
  const Extent& extent() const { return extent_; }

 private:
  const Operand& operand_;
  Index block_;
  TileRange own_;
  Extent extent_;
};

// Each rank checks and may hold its own rows, and reads other rows by tiles, which passes by
// columns need.
template <class T>
class DividedMatrix final : public OperandMatrix<T> {
 public:
  DividedMatrix(const Operand& operand, Index block, const TileRange& own, RowRange rows, bool held)
      : rows_(rows), tiled_(operand, block, own, held ? RowRange{} : rows) {
    Extent extent = tiled_.extent();
    const Index count = rows.last - rows.first;
    if (held && count > 0) {
      held_.emplace(operand, block, TileRange{own.row0 + rows.first, count, own.col0, own.cols});
      extent = held_->extent();
    }
    for (const Extent& of_rank : gathered(*Ranks::current(), extent)) {
      extent_.join(of_rank);
    }
  }

  void read(const TileRange& range, MatrixView<T> out) const override {
    if (held_ && rows_.first <= range.row0 && range.row0 + range.rows <= rows_.last) {
      held_->read({range.row0 - rows_.first, range.rows, range.col0, range.cols}, out);
    } else {
      tiled_.read(range, out);
    }
  }
  double bound() const override { return extent_.largest; }
  double least() const override { return extent_.least; }
  bool rows_alike() const override { return false; }
  bool cols_alike() const override { return tiled_.cols_alike(); }

 private:
  RowRange rows_;
  TiledMatrix<T> tiled_;
  std::optional<HeldMatrix<T>> held_;
  Extent extent_;  // of all ranks
};

}  // namespace

std::int64_t matrix_source_bytes(const Operand& operand, std::size_t element_size,
                                 std::int64_t dense_limit, std::optional<Index> rows) {
  const std::int64_t bytes = std::min(operand.rows, rows.value_or(operand.rows)) * operand.cols *
                             static_cast<std::int64_t>(element_size);
  return bytes <= dense_limit ? bytes : 0;
}

template <class T>
std::shared_ptr<OperandMatrix<T>> matrix_source(const Operand& operand, Index problem,
                                                const TileRange& own, std::int64_t dense_limit,
                                                const std::optional<RankPart>& rank) {
  const Index block = operand.block(problem);
  const TileRange part = own_block(operand, own);
  const auto most = rank ? std::optional(rank->most) : std::nullopt;
  const bool held = matrix_source_bytes(operand, sizeof(T), dense_limit, most) > 0;
  if (rank && part.rows > 1) {
    return std::make_shared<DividedMatrix<T>>(operand, block, part, rank->rows, held);
  }
  if (held) return std::make_shared<HeldMatrix<T>>(operand, block, part);
  return std::make_shared<TiledMatrix<T>>(operand, block, part, RowRange{0, part.rows});
}

#define ATTN_FOR_TYPE(T)                                    \
  template std::shared_ptr<OperandMatrix<T>> matrix_source( \
      const Operand&, Index, const TileRange&, std::int64_t, const std::optional<RankPart>&);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
ATTN_FOR_TYPE(std::uint8_t)
#undef ATTN_FOR_TYPE

}  // namespace attn
