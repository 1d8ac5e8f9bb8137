#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "attnkit/attention.hpp"

namespace attn::train {

/// Expectation-maximisation as attention, which estimates priors (Repetition): queries are the
/// centres of a mixture from which the keys are taken to be drawn.
struct EmScheme {
  Index iterations = 1;             ///< T >= 1
  bool estimates_variance = false;  ///< else all variances stay 1

  auto operator<=>(const EmScheme&) const = default;
};

/// No variance is estimated below it, where queries and keys divided by d^(1/4) have variance 1.
inline constexpr double least_variance = 1e-2;

/// How the heads of a layer attend to keys.
struct AttentionScheme {
  Scheme scheme = Scheme::unas;
  bool share_by_head = false;  ///< for hnas: one share u for each head, else one for the layer
  Index iterations = 1;        ///< for sinkhorn
  /// Replaces the members above: expectation-maximisation, in multi-view attention only.
  std::optional<EmScheme> em = {};
  double gamma = 1;  ///< for transport, > 0
  double reach = 1;  ///< for transport: keys i and j have the cost ((i − j)/reach)²; > 0

  auto operator<=>(const AttentionScheme&) const = default;

  /// Whether each position of a key has a learned preference.
  bool has_preference() const {
    return !em && (scheme == Scheme::fenchel || scheme == Scheme::transport);
  }
  bool is_transport() const { return !em && scheme == Scheme::transport; }
};

/// The extents that a plan of attention is made for: q (sequences, heads, queries, depth), k and v
/// likewise.
struct AttentionExtents {
  AttentionScheme scheme;
  bool causal = false;
  Index sequences = 0;
  Index heads = 0;
  Index queries = 0;
  Index keys = 0;
  Index depth = 0;
  bool padded_queries = false;  ///< with query_length
  bool padded_keys = false;     ///< with key_length
  bool in_paths = false;        ///< AttentionOptions::Tuning

  auto operator<=>(const AttentionExtents&) const = default;
};

/// The most working memory of a plan: for results alone, and for results and gradients. Memory for
/// dropout is not included; it fits into the gaps between a plan's arrays.
struct PlanBytes {
  std::int64_t results = 0;
  std::int64_t gradients = 0;
};

/// The plans that a thread keeps at a time.
inline constexpr Index most_plans = 16;

/// The plans of one thread: all layers with the same extents share one, which is kept for the next
/// step. Batches of many shapes would keep ever more memory, so beyond most_plans all are made
/// anew.
template <class T>
class AttentionPlans {
 public:
  AttentionPlan<T>& plan(const AttentionExtents& extents);

  /// The bytes of one plan.
  static PlanBytes bytes(const AttentionExtents& extents);

 private:
  std::map<AttentionExtents, AttentionPlan<T>> plans_;
};

}  // namespace attn::train
