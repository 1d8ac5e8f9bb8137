#pragma once

#include <map>
#include <optional>
#include <string>

#include "cli/command.hpp"
#include "reports/bulk_report.hpp"
#include "tensor/array_source.hpp"
#include "tensor/buffer.hpp"
#include "tensor/difference.hpp"

namespace attn::tools {

/// The results of a kernel in the file of --against.
struct KernelResults {
  /// The datasets plan and grad_scores of FILE, of the shape of `scores`. Throws Error(input) if it
  /// has neither, or if one has another shape; Error(usage) if the output would replace FILE.
  KernelResults(const cli::Arguments& arguments, const ArraySource& scores);

  std::optional<ArraySource> plan, grad_scores;
};

/// Compares the matrices of a kernel with right ones. With R, the range of a matrix's scores, T
/// iterations, the unit roundoff w of the type in which the kernel's numbers are stored, and u of
/// float32 (2 w, if they are stored in float64), numbers are the same if they differ by at most
///
///   plan         (w + (2 R + m + n + 4 T) u) |plan|
///   grad_scores  w |grad_scores| + (m + n + T) u max |grad_plan|
///
/// and the least number of their format. An exponential of a score rounds by up to 2 R u, a sum by
/// (m + n) u, and each of 2 T divisions by u or 2 u. This is what a kernel may lose that computes
/// with u; one that loses more is not excused.
class KernelComparison {
 public:
  /// `kernel` must outlive the object.
  KernelComparison(const KernelResults& kernel, Index rows, Index cols, Index iterations)
      : kernel_(kernel), rows_(rows), cols_(cols), iterations_(iterations) {}

  /// Matrices and their right results in float64.
  struct Right {
    const double *scores, *plan, *grad_plan, *grad_scores;
  };

  /// Compares `count` matrices from matrix `first` on.
  void add(Index first, Index count, const Right& right);

  /// By dataset.
  const std::map<std::string, KernelDifference>& found() const { return found_; }

 private:
  void add_plans(const ArraySource& kernel, Index first, Index count, const Right& right);
  void add_gradients(const ArraySource& kernel, Index first, Index count, const Right& right);
  void read(const ArraySource& kernel, Index first, Index count);
  void compare(const ArraySource& kernel, Index matrix, const double* numbers, const double* right,
               const Tolerance& tolerance);

  const KernelResults& kernel_;
  Index rows_, cols_, iterations_;
  Buffer<double> numbers_;  // of the kernel
  std::map<std::string, KernelDifference> found_;
};

}  // namespace attn::tools
