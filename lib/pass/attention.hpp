#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "attnkit/scheme.hpp"
#include "attnkit/stopping.hpp"
#include "parallel/kept_state.hpp"
#include "pass/potentials.hpp"
#include "pass/sink.hpp"
#include "score/allowed_counts.hpp"

namespace attn {

struct SchemeOptions {
  Scheme scheme = Scheme::unas;

  /// u of hnas, in [0, 1].
  double hybrid = 0.5;

  /// A logit that joins the row sums, see pass/sink.hpp; not for sinkhorn and transport.
  double sink = no_sink;

  /// For sinkhorn, whose error is the error of the column sums, Σ_j |c_j − b_j| / Σ_j b_j: row sums
  /// are exact to rounding.
  Stopping stopping = {};

  /// For sinkhorn: memory in which attend may keep exponentials of scores from one iteration to the
  /// next (at most all Lq × Lk of them in T), in addition to attend_bytes. Exponentials without
  /// room are computed again in every iteration, which takes longer and yields the same bits.
  std::int64_t kept_bytes = 0;
  /// Keeps the state of sinkhorn's iterations, and of repeated attention without gradients; null:
  /// nothing is kept.
  StateKeeper* keeper = nullptr;
};

/// Summary of sinkhorn's iterations; the other schemes are done after one iteration.
struct SchemeSummary {
  SolveStatus status = SolveStatus::done;
  Index iterations = 1;
  /// Σ_j |c_j − b_j| / Σ_j b_j of the column sums c; NaN unless a tolerance is used.
  double column_error = std::numeric_limits<double>::quiet_NaN();
  std::optional<Convergence> convergence = {};  ///< of the column error, if it did not converge
};

/// What a scheme finds for given scores.
struct Attention {
  AllowedCounts allowed;
  Potentials potentials;
  SchemeSummary summary;
};

}  // namespace attn
