#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "attn_compute/gradient_plan.hpp"
#include "attn_compute/shared_rows.hpp"
#include "cli/report.hpp"
#include "common/block_output.hpp"
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

  /// Adds the gradients of one head, in the order of the kinds. Throws Error(numerical) if one is
  /// not finite.
  void add(Index problem, const std::vector<Buffer<T>>& parts);

  /// From now on ranks divide the memory of heads, and of the sums over them. Of each head all of
  /// them call either `add`, with the same parts, or take_rows and then end_head.
  void divide(kernel::Ranks& ranks);

  /// Whether other heads share the gradient `name` of this one.
  bool sums(const std::string& name, Index problem) const {
    return !of(name).sums.is_alone(problem);
  }

  /// Takes rows of the gradient `name` of one head; those of a sum that do not come are 0. Throws
  /// as `add` does.
  void take_rows(const std::string& name, Index problem, const GatheredRows<T>& rows);

  /// The same for rows that every rank has, of a gradient that heads share.
  void take_known_rows(const std::string& name, Index first, Index count, const T* numbers) {
    of(name).shared->take_own(first, count, numbers);
  }

  /// After the last rows of a head. Throws as `add` does; ranks may throw different errors.
  void end_head(Index problem);

 private:
  struct Gradient {
    GradientKind kind;
    BlockOutput dataset;
    SharedSums<T> sums;
    std::unique_ptr<SharedRows<T>> shared = nullptr;  // instead, if ranks divide them
  };

  const Gradient& of(const std::string& name) const;

  void require_finite(const Gradient& gradient, Index problem, std::span<const T> part) const;
  void write(Gradient& gradient, Index block, const T* values) const;
  void write_rows(const Gradient& gradient, Index problem, const GatheredRows<T>& rows) const;
  void end_head(Gradient& gradient, Index problem) const;

  const AttentionInput& input_;
  kernel::Ranks* ranks_ = nullptr;
  std::vector<Gradient> gradients_;
};

}  // namespace attn::tools
