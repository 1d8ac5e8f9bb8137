#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/attention_input.hpp"

namespace attn::tools {

struct ComputeOptions;

/// One gradient that attn-compute was asked for. It has the shape of the dataset it belongs to, so
/// that it is summed over the heads that share a block of that (grouped heads, axes that
/// broadcast).
struct GradientKind {
  std::string name;                 ///< "grad_q"
  std::optional<Operand> of;        ///< that dataset; none: of --hybrid U, one number
  std::vector<std::string> labels;  ///< of a block's axes

  Shape shape() const { return of ? of->dataset.shape() : Shape{}; }

  /// Elements of a block, and how many blocks there are.
  Index size() const { return of ? of->rows * of->cols : 1; }
  Index blocks() const { return of ? element_count(of->leading) : 1; }

  /// The block that a problem has a part in.
  Index block(Index problem) const { return of ? of->block(problem) : 0; }
};

/// Throws Error(usage) where gradients are emitted and there is no grad_out, there are no values,
/// or queries are chosen.
void require_gradients(const ComputeOptions& options, const io::InputBundle& bundle,
                       bool chooses_queries);

/// What --emit asks for; Error(usage) naming what the scheme, the energy or the source has not.
std::vector<GradientKind> gradient_kinds(const ComputeOptions& options, const AttentionInput& input,
                                         const io::InputBundle& bundle, bool hybrid_given);

/// The block of each problem.
std::vector<Index> blocks_by_problem(const GradientKind& kind, Index problems);

/// Bytes of the sums over heads that are incomplete at the same time, at most.
std::int64_t gradient_sum_bytes(const std::vector<GradientKind>& kinds, Index problems);

}  // namespace attn::tools
