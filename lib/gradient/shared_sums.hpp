#pragma once

#include <span>

#include "tensor/buffer.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// The gradient of an operand whose blocks are shared by several problems: the sum over these
/// problems, in float64, in the order in which their parts are added, rounded once. A sum exists
/// only from the first of its problems to the last one. Buffers come from the pool of the thread
/// that adds.
template <class T>
class SharedSums {
 public:
  /// `block_of[n]` is the block of problem n, `blocks` the number of blocks.
  SharedSums(PooledVector<Index> block_of, Index blocks);

  /// Whether only this problem uses its block, so that its part is the block's gradient.
  bool is_alone(Index problem) const { return uses_[block(problem)] == 1; }

  /// Whether any block is shared.
  bool any_shared() const;

  /// Discards all sums.
  void restart();

  /// Adds the part of a problem; each problem is added once after a restart. Returns the gradient
  /// of the block after its last part, else an empty span; it is valid until the next call. An
  /// empty part is one of zeros, but the last part of a block is not empty.
  std::span<const T> add(Index problem, std::span<const T> part);

  /// The most sums that exist at a time if the problems are added in order.
  Index most_open() const;

 private:
  std::size_t block(Index problem) const {
    return static_cast<std::size_t>(block_of_[static_cast<std::size_t>(problem)]);
  }

  PooledVector<Index> block_of_;
  PooledVector<Index> uses_;  // by block
  PooledVector<Index> left_;
  PooledVector<Buffer<double>> sums_;  // by block; empty: no part has been added
  Buffer<T> rounded_;
};

}  // namespace attn
