#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/input.hpp"
#include "score/scores.hpp"
#include "shared/operand.hpp"
#include "shared/score_options.hpp"

namespace attn::tools {

/// The attention problems of a bundle (one per position of the leading axes, a *head* for short),
/// with everything about shapes and types checked, and nothing read yet.
struct AttentionInput {
  /// Throws Error(input) naming the datasets whose rank, shape or type does not fit, Error(usage)
  /// for an open causal alignment. `with_values`: v is wanted where there is one.
  AttentionInput(const io::InputBundle& bundle, const ScoreOptions& options, bool with_values);

  ScoreOptions options;
  Causal causal = Causal::none;
  Shape leading;  ///< of the results
  Index problems = 1;
  Index queries = 0;      ///< Lq
  Index keys = 0;         ///< Lk
  Index depth = 0;        ///< d; 0 for ready-made scores
  Index value_depth = 0;  ///< dv; 0 without v
  std::optional<Operand> q, k, v, scores, mask, bias;
  bool any_float64 = false;  ///< among what is computed with

  /// For the report: every dataset that is read.
  std::vector<io::InputDataset> datasets() const;

  /// "a.h5:/q and a.h5:/k, head [0, 3]": what the scores of a problem are made of, for messages.
  std::string place(Index problem) const;

  /// Bytes one head takes in memory at float32 or float64, dense matrices up to `dense_limit` bytes
  /// held and larger ones read by tiles.
  std::int64_t head_bytes(std::size_t element_size, std::int64_t dense_limit) const;
};

}  // namespace attn::tools
