#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/heads/attention_input.hpp"

namespace attn::tools {

struct ComputeOptions;

/// One gradient that --emit requests. It has the shape of its dataset: heads that share a block of
/// the dataset (grouped heads, broadcast axes) are summed.
struct GradientKind {
  std::string name;                 ///< "grad_q"
  std::optional<Operand> of;        ///< the dataset; none: --hybrid U, one number
  std::vector<std::string> labels;  ///< of a block's axes

  Shape shape() const { return of ? of->dataset.shape() : Shape{}; }

  /// The number of elements of a block, and the number of blocks.
  Index size() const { return of ? of->rows * of->cols : 1; }
  Index blocks() const { return of ? element_count(of->leading) : 1; }

  /// Whether a block is of all heads, which are computed together: see NormsOverHeads.
  bool of_all_heads() const { return of && of->heads == HeadAxis::whole; }

  /// The block that a problem uses.
  Index block(Index problem) const { return of ? of->block(problem) : 0; }
};

/// Throws Error(usage) if gradients are requested without grad_out (with --join: grad_joined),
/// without values, or for chosen queries.
void require_gradients(const ComputeOptions& options, const io::InputBundle& bundle,
                       bool chooses_queries);

/// The gradients that --emit requests. Throws Error(usage) that names a gradient which the scheme,
/// the energy or the source does not have.
std::vector<GradientKind> gradient_kinds(const ComputeOptions& options, const AttentionInput& input,
                                         const io::InputBundle& bundle, bool hybrid_given);

/// The block that each problem uses.
std::vector<Index> blocks_by_problem(const GradientKind& kind, Index problems);

/// The most bytes of sums over heads that are incomplete at the same time.
std::int64_t gradient_sum_bytes(const std::vector<GradientKind>& kinds, Index problems);

}  // namespace attn::tools
