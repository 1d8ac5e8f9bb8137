#pragma once

#include <optional>
#include <vector>

#include "cli/command.hpp"
#include "reports/bulk_report.hpp"
#include "tensor/array_source.hpp"

namespace attn::tools {

/// The results of a kernel in the file of --against.
struct KernelResults {
  /// The datasets plan and grad_scores of FILE, of the shape of `scores`. Throws Error(input) if it
  /// has neither, or if one has another shape.
  KernelResults(const cli::Arguments& arguments, const ArraySource& scores);

  std::optional<ArraySource> plan, grad_scores;
};

/// Compares matrices of a kernel with the same in float64, counting from matrix `first` of their
/// datasets. With R, the range of a matrix's scores, T iterations, the unit roundoff w of the type
/// in which the kernel's numbers are stored, and u of float32 (of float64, if they are stored in
/// it), numbers are the same if they differ by at most
///
///   plan         (w + (2 R + m + n + 4 T) u) |plan|
///   grad_scores  w |grad_scores| + (m + n + T) u max |grad_plan|
///
/// and the least number of their format. An exponential of a score rounds by up to 2 R u, a sum by
/// (m + n) u, and each of 2 T divisions by u or 2 u. This is what a kernel may lose that computes
/// with u; one that loses more is not excused.
class KernelComparison {
 public:
  struct Sizes {
    Index rows, cols, iterations;
  };
  KernelComparison(const ArraySource& kernel, const Sizes& sizes);

  /// Adds `count` matrices. `ranges` has R of each, and `largest_upstream` max |grad_plan|.
  void add_plans(Index first, Index count, const double* kernel, const double* right,
                 const double* ranges);
  void add_gradients(Index first, Index count, const double* kernel, const double* right,
                     const double* largest_upstream);

  const KernelDifference& found() const { return found_; }

 private:
  void add(Index matrix, const double* kernel, const double* right, const Tolerance& tolerance);

  Shape shape_;
  Sizes sizes_;
  double stored_ = 0;    // w
  double computed_ = 0;  // u
  double least_ = 0;
  KernelDifference found_;
};

}  // namespace attn::tools
