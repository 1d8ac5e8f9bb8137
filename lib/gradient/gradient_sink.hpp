#pragma once

#include <algorithm>
#include <vector>

#include "tensor/buffer.hpp"
#include "tensor/view.hpp"

namespace attn {

/// Takes a gradient with respect to an Lq × Lk matrix (the scores, the energies) tile by tile, and
/// makes of it the gradient of what the matrix was made of: the adjoint of a source of tiles.
///
/// Tiles may come from several *lanes* at once, one thread in each; tiles of different lanes have
/// no column in common, those of one lane come in a fixed order. Between calls of `merge` each
/// column comes in one lane only, so that what belongs to columns may be added to in place, while
/// what belongs to rows needs a sum per lane. Tiles that are not shown are zeros.
template <class T>
class GradientSink {
 public:
  virtual ~GradientSink() = default;

  /// Before the first tile; sums begin at zero.
  virtual void start(Index lanes) = 0;

  virtual void add(const TileRange& range, MatrixView<const T> gradient, Index lane) = 0;

  /// On one thread: adds up lanes [0, lanes) in their order and empties them.
  virtual void merge(Index lanes) = 0;

  /// After the last tile, on one thread.
  virtual void finish() {}
};

/// Sums of `size` numbers that lanes add to at once.
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

  /// total += the sums of lanes [0, lanes), in their order, which are zeros again.
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
  std::vector<Lane> lanes_;
};

}  // namespace attn
