#pragma once

#include <span>
#include <string>
#include <vector>

#include "attn_compute/gradient_plan.hpp"
#include "cli/report.hpp"
#include "common/outputs/block_output.hpp"
#include "gradient/shared_sums.hpp"
#include "io/output.hpp"
#include "tensor/buffer.hpp"

namespace attn::tools {

/// Writes gradients as heads are completed. A block that only one head uses is written at once;
/// other blocks are written when the gradients of all their heads have been added up, in float64
/// and in the order of the heads.
template <class T>
class GradientWriter {
 public:
  /// Creates the datasets, in `output`, and lists them in the report. `input` must outlive it.
  GradientWriter(io::OutputBundle& output, const std::vector<GradientKind>& kinds,
                 const AttentionInput& input, cli::Report& report);

  /// Adds the gradients of one head, in the order of the kinds; an empty one is one of zeros, as in
  /// SharedSums. Throws Error(numerical) if one is not finite.
  void add(Index problem, const std::vector<Buffer<T>>& parts);

 private:
  struct Gradient {
    GradientKind kind;
    BlockOutput dataset;
    SharedSums<T> sums;
  };

  void require_finite(const Gradient& gradient, Index problem, std::span<const T> part) const;
  void write(Gradient& gradient, Index block, const T* values) const;

  const AttentionInput& input_;
  std::vector<Gradient> gradients_;
};

}  // namespace attn::tools
