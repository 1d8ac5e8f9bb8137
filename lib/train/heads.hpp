#pragma once

#include <algorithm>
#include <string>

#include "attnkit/error.hpp"
#include "train/slot.hpp"

namespace attn::train {

/// width / heads. Throws Error(usage) unless the heads divide the width.
inline Index depth_of_heads(Index width, Index heads) {
  if (heads >= 1 && width % heads == 0) return width / heads;
  throw Error(Failure::usage, "the number of heads is " + std::to_string(heads) +
                                  ", which does not divide the width " + std::to_string(width));
}

/// Calls body(row of a matrix, head, place in the array of all heads) for each position of each
/// head.
template <class Body>
void for_each_head_row(const Sequences& sequences, Index heads, Index depth, const Body& body) {
  for (Index b = 0; b < sequences.count; ++b) {
    for (Index i = 0; i < sequences.length; ++i) {
      for (Index h = 0; h < heads; ++h) {
        body(b * sequences.length + i, h, ((b * heads + h) * sequences.length + i) * depth);
      }
    }
  }
}

/// The columns of `rows` from `first` on, head by head: (sequences, heads, positions, depth).
template <class T>
OwnedMatrix<T> split_heads(MatrixView<const T> rows, Index first, const Sequences& sequences,
                           Index heads, Index depth) {
  OwnedMatrix<T> split(sequences.rows() * heads, depth);
  for_each_head_row(sequences, heads, depth, [&](Index row, Index head, Index place) {
    std::copy_n(rows.row(row) + first + head * depth, depth, split.data() + place);
  });
  return split;
}

/// The reverse of split_heads.
template <class T>
void join_heads(const OwnedMatrix<T>& split, MatrixView<T> rows, Index first,
                const Sequences& sequences, Index heads, Index depth) {
  for_each_head_row(sequences, heads, depth, [&](Index row, Index head, Index place) {
    std::copy_n(split.data() + place, depth, rows.row(row) + first + head * depth);
  });
}

}  // namespace attn::train
