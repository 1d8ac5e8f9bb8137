#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/report.hpp"
#include "common/heads/attention_input.hpp"
#include "common/outputs/block_output.hpp"
#include "common/outputs/gradient_kind.hpp"
#include "gradient/shared_sums.hpp"
#include "io/output.hpp"

namespace attn::tools {

/// Writes gradients as problems are completed. A block that only one problem uses is written at
/// once; other blocks are written when the gradients of all their problems have been added up, in
/// float64 and in the order of the problems.
template <class T>
class GradientWriter {
 public:
  /// Creates the datasets, in `output`, and lists them in the report. `input` must outlive it.
  GradientWriter(io::OutputBundle& output, const std::vector<GradientKind>& kinds,
                 const AttentionInput& input, cli::Report& report);

  /// Adds the part of a problem to the gradient of kind number `kind`; problems in their order. An
  /// empty part is one of zeros, as in SharedSums. Throws Error(numerical) if a gradient that must
  /// be finite is not.
  void add(std::size_t kind, Index problem, std::span<const T> part);

  /// The dataset of a kind, and the position of a problem's block along its leading axes, for a
  /// gradient that is written in parts: each problem has its own block.
  io::OutputDataset dataset(std::size_t kind) const { return gradients_[kind].dataset.dataset(); }
  Shape position(std::size_t kind, Index problem) const;

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
