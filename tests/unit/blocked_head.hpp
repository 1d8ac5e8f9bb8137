#pragma once

// A random head, and parts of it as heads of their own.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "energy/table.hpp"
#include "plan/head.hpp"
#include "random_problem.hpp"

namespace attn::testing {

struct BlockedShape {
  Index queries = 300;
  Index keys = 700;
  Index depth = 5;
  Index v_head_dim = 3;
  double spread = 1;  // of q and k: 4 is not near zero
  bool causal = false;
  Window window = {};
  bool bias = false;
  bool mask = false;
  bool alibi = false;
  double sink = no_sink;
  double values = 1;  // the size of v
  double common = 0;  // added to all values
  std::optional<double> softcap = std::nullopt;
};

template <class T>
class BlockedHead {
 public:
  BlockedHead(const BlockedShape& of, Random& random) : case_(of) {
    q_ = normal(of.queries * of.depth, of.spread, random);
    k_ = normal(of.keys * of.depth, of.spread, random);
    v_ = normal(of.keys * of.v_head_dim, of.values, random);
    for (T& value : v_) value += static_cast<T>(of.common);
    bias_ = normal(of.queries * of.keys, 1, random);
    // The largest bias is in one block only.
    if (!bias_.empty()) bias_.back() = T{3};
    for (Index n = 0; n < of.queries * of.keys; ++n) mask_.push_back(chance(random, 0.7) ? 1 : 0);
    // A query and a key with nothing allowed.
    for (Index j = 0; j < of.keys; ++j) mask_[static_cast<std::size_t>(j)] = 0;
    for (Index i = 0; i < of.queries; ++i) mask_[static_cast<std::size_t>(i * of.keys)] = 0;
    recipe_.energy = &scaled_dot_energy();
    recipe_.causal = of.causal;
    recipe_.window = of.window;
    recipe_.softcap = of.softcap;
    if (of.alibi) recipe_.relative = RelativePositions::alibi;
  }

  // Some queries and keys as a head of their own.
  struct Part {
    Part(const BlockedHead& of, const TileRange& pairs, const std::optional<ScoreBounds>& bounds)
        : range(pairs) {
      const BlockedShape& shape = of.case_;
      arrays.queries = pairs.rows;
      arrays.keys = pairs.cols;
      arrays.offset = pairs.row0 - pairs.col0;
      arrays.q = {of.q_.data() + pairs.row0 * shape.depth, pairs.rows, shape.depth};
      arrays.k = {of.k_.data() + pairs.col0 * shape.depth, pairs.cols, shape.depth};
      arrays.v = {of.v_.data() + pairs.col0 * shape.v_head_dim, pairs.cols, shape.v_head_dim};
      arrays.part.bounds = bounds;
      const Index first = pairs.row0 * shape.keys + pairs.col0;
      if (shape.bias) {
        T largest = 0;
        for (Index i = 0; i < pairs.rows; ++i) {
          for (Index j = 0; j < pairs.cols; ++j) {
            const T value = of.bias_[static_cast<std::size_t>(first + i * shape.keys + j)];
            largest = std::max(largest, std::abs(value));
          }
        }
        bias.emplace(of.bias_.data() + first, shape.keys, 1, static_cast<double>(largest));
        arrays.bias = &*bias;
      }
      if (shape.mask) {
        mask.emplace(of.mask_.data() + first, shape.keys, 1);
        arrays.mask = &*mask;
      }
      relative = relative_bias_of<T>(of.recipe_, {}, arrays);
      if (relative) arrays.relative = &*relative;
      scores.emplace(of.recipe_, arrays, 1);
    }
    TileRange range;
    HeadArrays<T> arrays;
    std::optional<BroadcastMatrix<T>> bias;
    std::optional<BroadcastMatrix<std::uint8_t>> mask;
    std::optional<RelativeBias<T>> relative;
    std::optional<HeadScores<T>> scores;
  };

 protected:
  Part whole() const { return Part(*this, {0, case_.queries, 0, case_.keys}, std::nullopt); }

  /// Up to `step` queries, from `row` on.
  Part part_of(RowRange keys, Index row, Index step, const ScoreBounds& bounds) const {
    return Part(*this,
                {row, std::min(step, case_.queries - row), keys.first, keys.last - keys.first},
                bounds);
  }

  /// Calls body(part) for the keys of each block.
  template <class Body>
  void each_block(RowRange own, Index step, const std::optional<ScoreBounds>& bounds,
                  const Body& body) const {
    for (Index col = 0; col < case_.keys; col += step) {
      const Index cols = std::min(step, case_.keys - col);
      body(Part(*this, {own.first, own.last - own.first, col, cols}, bounds));
    }
  }

  /// Those of the parts that each_block makes of the panels.
  ScoreBounds bounds_of_blocks(const Partition& partition, Index step) const {
    ScoreBounds bounds;
    for (Index p = 0; p < partition.panels; ++p) {
      each_block(partition.lines(p), step, std::nullopt,
                 [&](const Part& part) { bounds = bounds.joined(part.scores->scores().bounds()); });
    }
    return bounds;
  }

  T largest_value() const {
    return std::abs(*std::max_element(v_.begin(), v_.end(),
                                      [](T a, T b) { return std::abs(a) < std::abs(b); }));
  }

  static std::vector<T> normal(Index size, double deviation, Random& random) {
    std::normal_distribution<double> draw(0, deviation);
    std::vector<T> values;
    for (Index n = 0; n < size; ++n) values.push_back(static_cast<T>(draw(random)));
    return values;
  }

  BlockedShape case_;
  ScoreRecipe recipe_;
  std::vector<T> q_, k_, v_, bias_;
  std::vector<std::uint8_t> mask_;
};

}  // namespace attn::testing
