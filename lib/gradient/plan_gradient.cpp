#include "gradient/plan_gradient.hpp"

#include <algorithm>
#include <utility>

#include "tensor/buffer.hpp"

namespace attn {

template <class T>
void differentiate_plans(const Scores<T>& scores, std::span<const PlanTerm> plans,
                         const GradientTargets<T>& targets, int threads) {
  // There are no values and no output: their products are 0.
  Buffer<T> zeros(std::max(scores.rows(), scores.cols()));
  std::fill(zeros.begin(), zeros.end(), T{0});
  Forward<T> forward;
  forward.scores = &scores;
  forward.options.scheme = Scheme::sinkhorn;
  forward.v = {zeros.data(), scores.cols(), 1};
  forward.grad_out = {zeros.data(), scores.rows(), 1};
  const TileProduct<T> products(forward.grad_out, forward.v, T{1});
  PooledVector<WeightAdjoint<T>> adjoints;
  for (const PlanTerm& plan : plans) {
    WeightAdjoint<T> adjoint;
    adjoint.f = to_subtract(plan.row);
    adjoint.g = to_subtract(plan.col);
    adjoint.row.assign(plan.row.size(), static_cast<T>(plan.coefficient));
    adjoints.push_back(std::move(adjoint));
  }
  differentiate_weights(forward, products, std::move(adjoints), targets, threads);
}

template <class T>
void differentiate_plan(const Scores<T>& scores, const Potentials& potentials, double coefficient,
                        const GradientTargets<T>& targets, int threads) {
  const PlanTerm plan{coefficient, potentials.row, potentials.col};
  differentiate_plans<T>(scores, {&plan, 1}, targets, threads);
}

std::int64_t differentiate_plans_bytes(Index rows, Index cols, Index plans,
                                       std::size_t element_size, int threads) {
  AdjointNeeds needs;
  needs.several = plans > 1;
  needs.sets = std::max(needs.sets, plans);
  return differentiate_weights_bytes({rows, cols, 1, element_size, threads}, needs) +
         std::max(rows, cols) * static_cast<std::int64_t>(element_size);
}

#define ATTN_FOR_TYPE(T)                                                         \
  template void differentiate_plan(const Scores<T>&, const Potentials&, double,  \
                                   const GradientTargets<T>&, int);              \
  template void differentiate_plans(const Scores<T>&, std::span<const PlanTerm>, \
                                    const GradientTargets<T>&, int);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
