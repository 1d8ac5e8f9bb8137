#pragma once

#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "pass/output.hpp"
#include "score/scores.hpp"
#include "tensor/buffer.hpp"

namespace attn {

/// What the first keys of one or more heads, the places of attention sinks, do to the output.
struct SinkFigures {
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

  double attention = 0;  ///< Σ c_j of the first keys
  Index keys = 0;        ///< their number
  Index other_keys = 0;
  double norms = 0;  ///< Σ ‖v_j‖ of the first keys; NaN without values
  double other_norms = 0;
  /// ‖O‖_F²/‖O‖₂² of the output O, between 1 and its rank, and of the output without the terms of
  /// the first keys; NaN without values, for an output of 0, and for several heads.
  double stable_rank = unknown, stable_rank_without = unknown;
  double largest_score = unknown;  ///< max |s_ij| of the allowed pairs; NaN without scores
};

/// Adds the figures of another head to those of some heads, or of none yet.
void add_head(const SinkFigures& more, std::optional<SinkFigures>& all);

/// The first `count` keys that some query may attend to.
std::vector<Index> first_open_keys(std::span<const Index> queries_of_key, Index count);

/// Observers of the output, with and without the terms of some keys.
template <class T>
class SinkOutputs {
 public:
  /// v (Lk, dv) must outlive the object.
  SinkOutputs(MatrixView<const T> v, Index queries, std::span<const Index> sinks);

  Observer<T>& output() { return output_; }
  Observer<T>& without() { return without_output_; }

  /// The figures of values and outputs. `queries_of_key` (Lk): keys without queries are left out.
  /// Valid after the pass.
  SinkFigures figures(std::span<const Index> queries_of_key) const;

  /// The bytes that it holds during a pass with this partition.
  static std::int64_t bytes(const Partition& partition, Index queries, Index keys, Index depth);

 private:
  MatrixView<const T> v_;
  std::span<const Index> sinks_;
  Buffer<T> without_values_, out_storage_, without_storage_;
  MatrixView<T> out_, without_;
  Output<T> output_, without_output_;
};

/// ‖a‖_F²/‖a‖₂², within some roundings of float64 for each row; NaN for a = 0.
template <class T>
double stable_rank(MatrixView<const T> a);

/// max |s_ij| of the allowed pairs; NaN if there are none. Throws the errors of Scores::fill.
template <class T>
double largest_score(const Scores<T>& scores, int threads);

}  // namespace attn
