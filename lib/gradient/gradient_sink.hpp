#pragma once

#include <algorithm>

#include "tensor/buffer.hpp"
#include "tensor/pooled_vector.hpp"
#include "tensor/view.hpp"

namespace attn {

/// Takes a gradient with respect to an Lq × Lk matrix (the scores, the energies) tile by tile, and
/// computes from it the gradient of the matrix's inputs: the adjoint of a source of tiles.
///
/// Tiles may come from several *lanes* at once, one thread in each. Tiles of different lanes have
/// no column in common; those of one lane come in a fixed order. Between calls of `merge` each
/// column comes in only one lane, so sums by column may be updated in place, while sums by row need
/// a copy per lane. Tiles that are not shown are zeros.
template <class T>
class GradientSink : public FromPool {
 public:
  virtual ~GradientSink() = default;

  /// Called before the first tile; sums start at zero.
  virtual void start(Index lanes) = 0;

  virtual void add(const TileRange& range, MatrixView<const T> gradient, Index lane) = 0;

  /// Called on one thread: adds up lanes [0, lanes) in their order and empties them.
  virtual void merge(Index lanes) = 0;

  /// Called after the last tile, on one thread.
  virtual void finish() {}
};

/// Sums of `size` numbers to which several lanes add at once.
template <class T>
class LaneSums {
 public:
  LaneSums() = default;
  LaneSums(Index size, Index lanes) : size_(size), lanes_(static_cast<std::size_t>(lanes)) {}

  /// The sum of one lane, zeros at first.
  T* lane(Index lane) {
    Lane& own = lanes_[static_cast<std::size_t>(lane)];
    if (!own.used) {
      own.values.reserve(size_);
      std::fill_n(own.values.data(), size_, T{0});
      own.used = true;
    }
    return own.values.data();
  }

  /// total += the sums of lanes [0, lanes), in their order; resets them to zeros.
  void merge(Index lanes, T* total) {
    for (Index n = 0; n < lanes; ++n) {
      Lane& own = lanes_[static_cast<std::size_t>(n)];
      if (!own.used) continue;
      for (Index at = 0; at < size_; ++at) total[at] += own.values[at];
      own.used = false;
    }
  }

 private:
  struct Lane {
    Buffer<T> values;
    bool used = false;
  };
  Index size_ = 0;
  PooledVector<Lane> lanes_;
};

}  // namespace attn
