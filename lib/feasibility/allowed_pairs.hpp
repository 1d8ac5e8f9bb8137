#pragma once

#include <cstdint>
#include <span>

#include "feasibility/index_set.hpp"
#include "score/scores.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// Which of m × n pairs (row, col) may carry mass. Takes O(m + n) memory if every row allows one
/// run of columns, apart from closed columns (causality, windows, padding, no mask); else m·n bits.
class AllowedPairs {
 public:
  using Word = IndexSet::Word;

  /// Runs [begin_i, end_i) of columns minus the closed ones, for which `open` (n) is 0. Throws
  /// std::logic_error if either end moves back from one row to the next, ignoring rows without a
  /// column (begin = end).
  static AllowedPairs from_runs(PooledVector<Index> begin, PooledVector<Index> end,
                                PooledVector<std::uint8_t> open);

  /// Row i is the w = ⌈n/64⌉ words from words[i·w] on; column j is bit j % 64 of its word j / 64,
  /// and the bits past column n are 0. Throws std::logic_error for another number of words.
  static AllowedPairs from_bits(Index rows, Index cols, PooledVector<Word> words);

  Index rows() const { return rows_; }
  Index cols() const { return cols_; }
  bool contains(Index row, Index col) const;

  /// Whether every pair is known to be allowed without looking at bits.
  bool whole() const;

  /// Whether each row's columns are one run minus the closed ones.
  bool in_runs() const { return bits_.empty(); }
  Index run_begin(Index row) const { return begin_[static_cast<std::size_t>(row)]; }
  Index run_end(Index row) const { return end_[static_cast<std::size_t>(row)]; }

  /// Requires !in_runs(). The bits of a row.
  std::span<const Word> bits(Index row) const {
    return std::span(bits_).subspan(static_cast<std::size_t>(row * row_words_),
                                    static_cast<std::size_t>(row_words_));
  }

  /// All columns except those known to be closed to every row.
  IndexSet open_cols() const;

  /// The first column >= from that `row` allows and that is in `among`, a subset of open_cols();
  /// cols() if there is none.
  Index next(Index row, Index from, const IndexSet& among) const;

  /// The same pairs, as runs if the bits form runs: a mask often spells out causality.
  AllowedPairs simplified() &&;

  /// The pairs (col, row). Their runs may move back, which next() supports.
  AllowedPairs transposed() const;

 private:
  Index rows_ = 0;
  Index cols_ = 0;
  PooledVector<Index> begin_, end_;
  PooledVector<std::uint8_t> open_;
  PooledVector<Word> bits_;
  Index row_words_ = 0;
};

/// The pairs that `scores` allows under mask, bias, preference, causality, window, padding and
/// ready-made −inf, simplified. Reads the terms on up to `threads` threads. Throws whatever reading
/// throws.
template <class T>
AllowedPairs allowed_pairs(const Scores<T>& scores, int threads);

/// Bytes needed to find these pairs, known in advance: O(Lq + Lk), or about Lq·Lk/8.
template <class T>
std::int64_t allowed_pairs_bytes(const Scores<T>& scores);

}  // namespace attn
