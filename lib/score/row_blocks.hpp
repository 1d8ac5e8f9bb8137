#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "score/row_source.hpp"
#include "tensor/buffer.hpp"

namespace attn {

/// The rows of a block: about a megabyte, a multiple of `step`.
inline Index rows_of_block(Index row_bytes, Index step) {
  constexpr Index bytes = Index{1} << 20;
  return std::max<Index>(1, bytes / std::max<Index>(1, row_bytes) / step) * step;
}

/// Reads all rows once: calls body(rows) for blocks of them in order.
template <class T, class Body>
void for_all_rows(const RowSource<T>& source, const Body& body) {
  const Index at_once = rows_of_block(source.cols() * static_cast<Index>(sizeof(T)), 1);
  const Buffer<T> values(std::min(at_once, source.rows()) * source.cols());
  for (Index first = 0; first < source.rows(); first += at_once) {
    const MatrixView<T> rows(values.data(), std::min(at_once, source.rows() - first),
                             source.cols());
    source.read(first, rows);
    body(MatrixView<const T>(rows));
  }
}

/// What rows are: a thread holds a block of each.
enum class RowRole { keys, values };

/// The rows of a source by blocks of about a megabyte. The first ones are kept as a `Made` if the
/// source says so; of the others each thread holds the last one that it asked for: neighbouring
/// tiles need the same block.
template <class T, class Made, RowRole role>
class RowBlocks {
 public:
  /// Blocks begin at multiples of this. Rows of two blocks, which no pass asks for, are read at
  /// each call.
  static constexpr Index step = 512;

  explicit RowBlocks(const RowSource<T>& source)
      : source_(source),
        rows_(rows_at_once(source.cols())),
        kept_blocks_(std::min((source.rows() + rows_ - 1) / rows_,
                              source.kept_bytes() / std::max<std::int64_t>(1, block_bytes()))),
        kept_(std::make_unique<Kept[]>(static_cast<std::size_t>(kept_blocks_))),
        number_(++numbers()) {}

  RowBlocks(const RowBlocks&) = delete;
  RowBlocks& operator=(const RowBlocks&) = delete;

  const RowSource<T>& source() const { return source_; }

  /// Calls body(made, at) with what make(rows of the source) returns for a block that has these
  /// rows, the first of them as its row `at`, a multiple of 64 if `first` is.
  template <class Make, class Body>
  void with_rows(Index first, Index count, const Make& make, const Body& body) const {
    const Index start = first / rows_ * rows_;
    if (first + count > start + rows_) {
      const Index before = first / step * step;
      const Index past = std::min(source_.rows(), (first + count + step - 1) / step * step);
      return body(made_of(before, past, make), first - before);
    }
    if (start / rows_ < kept_blocks_) {
      Kept& kept = kept_[static_cast<std::size_t>(start / rows_)];
      std::call_once(kept.once, [&] { kept.made = made_of(start, end_of(start), make); });
      return body(kept.made, first - start);
    }
    Held& held = held_by_thread();
    if (held.number != number_ || held.start != start) {
      held.number = 0;
      held.made = Made();
      held.made = made_of(start, end_of(start), make);
      held.number = number_;
      held.start = start;
    }
    body(held.made, first - start);
  }

  /// Bytes that a thread takes if a `Made` is as large as the rows that it is made of, and tiles
  /// lie within a block.
  static std::int64_t bytes(Index rows, Index cols) {
    return 2 * std::min(rows, rows_at_once(cols)) * cols * static_cast<std::int64_t>(sizeof(T));
  }

 private:
  struct Kept {
    std::once_flag once;
    Made made;
  };
  struct Held {
    std::uint64_t number = 0;
    Index start = 0;
    Made made;
  };
  static Held& held_by_thread() {
    thread_local Held held;
    return held;
  }
  static std::atomic<std::uint64_t>& numbers() {
    static std::atomic<std::uint64_t> last = 0;
    return last;
  }
  static Index rows_at_once(Index cols) {
    return rows_of_block(cols * static_cast<Index>(sizeof(T)), step);
  }

  Index end_of(Index start) const { return std::min(source_.rows(), start + rows_); }
  std::int64_t block_bytes() const {
    return rows_ * source_.cols() * static_cast<std::int64_t>(sizeof(T));
  }

  template <class Make>
  Made made_of(Index first, Index last, const Make& make) const {
    // What is kept or held may outlive the thread's pool.
    const MemoryPool::Use none(nullptr);
    const Buffer<T> values((last - first) * source_.cols());
    const MatrixView<T> rows(values.data(), last - first, source_.cols());
    source_.read(first, rows);
    return make(MatrixView<const T>(rows));
  }

  const RowSource<T>& source_;
  Index rows_;
  Index kept_blocks_;
  std::unique_ptr<Kept[]> kept_;
  std::uint64_t number_;  // no other object had it
};

}  // namespace attn
