#pragma once

#include <functional>

#include "fenchel/divergence.hpp"
#include "fenchel/dual.hpp"
#include "fenchel/dual_search.hpp"
#include "fenchel/templates.hpp"
#include "tensor/owned_matrix.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn::fenchel {

/// Newton's method for one query with the second derivative as a matrix, factored by Cholesky: O(n
/// d²) a step, for any condition number. One per thread, for templates of one shape.
class DenseNewton : public FromPool {
 public:
  explicit DenseNewton(const Templates& templates);

  /// From `lambda` (d) to λ*, for `target` = z + μ̃ of the centred templates. Writes p (n) and the
  /// mean of the centred templates under it (d). Does not fill in primal, dual and certificate.
  DualSummary solve(Divergence& divergence, const double* target, double alpha,
                    const DualOptions& options, double* lambda, double* p, double* mean);

  static std::int64_t bytes(Index n, Index d);

 private:
  void find_step(Divergence& divergence, const double* p, const double* mean, double alpha);

  const Templates& templates_;
  OwnedMatrix<double> hessian_;
  OwnedMatrix<double> gradient_, step_, logits_, along_;
  DualSearch search_;
};

}  // namespace attn::fenchel
