#pragma once

#include <limits>
#include <string>
#include <vector>

#include "train/transformer.hpp"

namespace attn::train {

/// A key whose column sum is below this is explained away.
inline constexpr double explained_away_below = 1e-8;

/// Column sums c_j = Σ_i π_ij of an attention, over the keys of all heads and sequences that some
/// query may attend to. Padding is neither a query nor a key.
struct LayerColumnSums {
  std::string group;                                       ///< AttentionLayer::group
  double least = std::numeric_limits<double>::infinity();  ///< min_j c_j
  Index keys = 0;
  Index explained_away = 0;  ///< keys with c_j < explained_away_below

  /// The share of explained-away keys; NaN without keys.
  double explained_away_share() const {
    return static_cast<double>(explained_away) / static_cast<double>(keys);
  }

  /// Adds other keys of the same attention.
  void add(const LayerColumnSums& more);
};

/// The column sums of an attention in a forward pass, with the share u for its weights.
template <class T>
LayerColumnSums layer_column_sums(const Slot<T>& slot, const AttentionSite<T>& site);

/// The column sums of every attention of a model over a batch, without dropout, in the order of
/// Transformer::attention_sites; none for an empty batch. No result depends on threads. Requires
/// threads >= 1.
template <class T>
std::vector<LayerColumnSums> layer_column_sums(const Transformer& model, const T* weights,
                                               const std::vector<SlotBatch>& slots, int threads);

}  // namespace attn::train
