#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "head/operand.hpp"

namespace attn::tools {

/// One gradient that --emit requests. It has the shape of its dataset: problems that share a block
/// of the dataset (grouped heads, broadcast axes) are summed.
struct GradientKind {
  std::string name;                 ///< "grad_q"
  std::optional<Operand> of;        ///< the dataset; none: one number, such as --hybrid U
  std::vector<std::string> labels;  ///< of a block's axes
  bool finite = true;               ///< numbers that are not finite are an error
  Shape chunk = {};                 ///< of a block; empty: contiguous

  Shape shape() const { return of ? of->dataset.shape() : Shape{}; }

  /// The number of elements of a block, and the number of blocks.
  Index size() const { return of ? of->rows * of->cols : 1; }
  Index blocks() const { return of ? element_count(of->leading) : 1; }

  /// Whether a block is of all heads, which are computed together, as weights of a norm over heads
  /// are.
  bool of_all_heads() const { return of && of->heads == HeadAxis::whole; }

  /// The block that a problem uses.
  Index block(Index problem) const { return of ? of->block(problem) : 0; }
};

/// The block that each problem uses.
std::vector<Index> blocks_by_problem(const GradientKind& kind, Index problems);

/// Whether several problems use one block.
bool is_shared(const GradientKind& kind, Index problems);

/// The most bytes of sums over problems that are incomplete at the same time.
std::int64_t gradient_sum_bytes(const std::vector<GradientKind>& kinds, Index problems);

/// The elements of all datasets of these gradients.
double gradient_elements(const std::vector<GradientKind>& kinds);

}  // namespace attn::tools
