#include "fenchel/queries.hpp"

#include <algorithm>

#include "fenchel/radius.hpp"
#include "kernel/product.hpp"
#include "parallel/parallel_for.hpp"
#include "tensor/owned_matrix.hpp"

namespace attn {
namespace {

void multiply_values(MatrixView<const double> p, MatrixView<const double> values, int threads,
                     MatrixView<double> out) {
  // By pieces, so that parts of the queries have the same bits.
  parallel_for((p.rows + dual_part_step - 1) / dual_part_step, threads, [&](Index n, int) {
    const Index first = n * dual_part_step;
    const Index count = std::min(dual_part_step, p.rows - first);
    kernel::multiply(p.row_range(first, count), values, out.row_range(first, count));
  });
}

}  // namespace

PooledVector<DualSummary> solve_queries(const DualProblem& problem,
                                        std::optional<double> square_radius,
                                        const DualOptions& options, MatrixView<const double> values,
                                        int threads, const QueryTargets& targets) {
  const Index queries = problem.evidence.rows;
  const Index n = problem.templates.rows;
  const Index d = problem.templates.cols;
  // What is needed for another result, but not wanted itself, gets memory of its own.
  OwnedMatrix<double> own_lambda, own_p, own_out;
  const auto needed = [&](const MatrixView<double>& target, OwnedMatrix<double>& own, Index cols) {
    if (target.rows > 0) return target;
    own = OwnedMatrix<double>(queries, cols);
    return own.view();
  };
  const bool with_values = targets.out.rows > 0 || targets.out_deviation.rows > 0;
  const DualResults results = {needed(targets.lambda, own_lambda, d), targets.h,
                               with_values ? needed(targets.p, own_p, n) : targets.p};
  PooledVector<DualSummary> summaries =
      square_radius ? solve_radius(problem, *square_radius, options, threads, results)
                    : solve_dual(problem, options, threads, results);
  PooledVector<double> alphas;
  alphas.reserve(summaries.size());
  for (const DualSummary& summary : summaries) {
    alphas.push_back(square_radius ? summary.alpha : problem.alpha);
  }
  closed_forms(problem, alphas, threads, targets.closed_forms);
  for (Index q = 0; q < targets.relative_deviation.rows; ++q) {
    const auto at = static_cast<std::size_t>(q);
    // Nothing is solved for an empty query, so the distance of its λ from αz means nothing.
    targets.relative_deviation(q, 0) =
        summaries[at].status == DualStatus::empty
            ? 0
            : relative_deviation(results.lambda.row(q), problem.evidence.row(q), d, alphas[at]);
  }
  if (!with_values) return summaries;
  const MatrixView<double> out = needed(targets.out, own_out, values.cols);
  multiply_values(results.p, values, threads, out);
  if (targets.out_deviation.rows == 0) return summaries;
  OwnedMatrix<double> first_p(queries, n), first_out(queries, values.cols);
  closed_forms(problem, alphas, threads, {{}, first_p.view(), {}});
  multiply_values(first_p.read(), values, threads, first_out.view());
  for (Index q = 0; q < queries; ++q) {
    // Relative to the exact result, like ‖λ − αz‖/‖λ‖.
    targets.out_deviation(q, 0) = relative_deviation(out.row(q), first_out.row(q), values.cols, 1);
  }
  return summaries;
}

}  // namespace attn
