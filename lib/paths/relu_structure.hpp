#pragma once

#include <cstdint>
#include <memory>

#include "paths/relu_layers.hpp"

namespace attn {

/// The exact rank of a set of paths of a ReLU network. The structure vector of a path has ones at
/// its weights. Vectors are eliminated one after the other in whole numbers of any size, without
/// rounding or a modulus, and store only their nonzero entries. Paths of a basis in its order take
/// a few steps each. Vectors of random paths through many layers fill up, and their numbers grow.
class ReluPathRank {
 public:
  /// `layers` must outlive it.
  explicit ReluPathRank(const ReluLayers& layers);
  ~ReluPathRank();
  ReluPathRank(const ReluPathRank&) = delete;
  ReluPathRank& operator=(const ReluPathRank&) = delete;

  /// Adds the path through the L + 1 nodes; returns whether it is independent of the paths before.
  /// Requires nodes in range.
  bool add(const Index* nodes);

  Index rank() const;

  /// Bytes of memory that the object takes now, without numbers beyond 128 bits; bytes(layers):
  /// without paths.
  std::int64_t bytes() const;
  static std::int64_t bytes(const ReluLayers& layers);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attn
