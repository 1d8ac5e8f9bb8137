#include "gradient/plan_gradient.hpp"

#include <algorithm>
#include <utility>

#include "tensor/buffer.hpp"

namespace attn {

namespace {

template <class T>
Buffer<T> zeros_of(Index count) {
  Buffer<T> zeros(count);
  std::fill(zeros.begin(), zeros.end(), T{0});
  return zeros;
}

template <class T>
Forward<T> forward_of(const Scores<T>& scores, T* zeros, const MatrixSource<T>* g) {
  Forward<T> forward;
  forward.scores = &scores;
  forward.options.scheme = Scheme::sinkhorn;
  forward.v = {zeros, scores.cols(), 1};
  forward.grad_out = {zeros, scores.rows(), 1};
  forward.products = g;
  return forward;
}

template <class T>
void differentiate(const Scores<T>& scores, PooledVector<WeightAdjoint<T>> adjoints,
                   const MatrixSource<T>* g, const GradientTargets<T>& targets, int threads) {
  const PlanForward<T> plan(scores, g);
  differentiate_weights(plan.forward, plan.products, std::move(adjoints), targets, threads);
}

template <class T>
WeightAdjoint<T> adjoint_of(const SolutionTerm& solution, bool with_g) {
  WeightAdjoint<T> adjoint;
  adjoint.f = to_subtract(solution.row);
  adjoint.g = to_subtract(solution.col);
  const double coefficient = solution.coefficient;
  adjoint.coefficient = with_g ? coefficient : 0;
  for (const double u : solution.u) adjoint.row.push_back(static_cast<T>(coefficient * u));
  adjoint.factor.assign(solution.u.size(), T{1});
  for (const double v : solution.v) adjoint.col.push_back(static_cast<T>(coefficient * v));
  return adjoint;
}

}  // namespace

template <class T>
PlanForward<T>::PlanForward(const Scores<T>& scores, const MatrixSource<T>* g)
    : zeros(zeros_of<T>(std::max(scores.rows(), scores.cols()))),
      forward(forward_of(scores, zeros.data(), g)),
      products(forward.grad_out, forward.v, T{1}) {}

template <class T>
void differentiate_plans(const Scores<T>& scores, std::span<const PlanTerm> plans,
                         const GradientTargets<T>& targets, int threads) {
  PooledVector<WeightAdjoint<T>> adjoints;
  for (const PlanTerm& plan : plans) {
    WeightAdjoint<T> adjoint;
    adjoint.f = to_subtract(plan.row);
    adjoint.g = to_subtract(plan.col);
    adjoint.row.assign(plan.row.size(), static_cast<T>(plan.coefficient));
    adjoints.push_back(std::move(adjoint));
  }
  differentiate<T>(scores, std::move(adjoints), nullptr, targets, threads);
}

template <class T>
void differentiate_solution(const Scores<T>& scores, const Potentials& potentials,
                            const MatrixSource<T>* g, std::span<const double> u,
                            std::span<const double> v, const GradientTargets<T>& targets,
                            int threads) {
  const SolutionTerm solution{1, potentials.row, potentials.col, u, v};
  differentiate_solutions<T>(scores, {&solution, 1}, g, targets, threads);
}

template <class T>
void differentiate_solutions(const Scores<T>& scores, std::span<const SolutionTerm> solutions,
                             const MatrixSource<T>* g, const GradientTargets<T>& targets,
                             int threads) {
  PooledVector<WeightAdjoint<T>> adjoints;
  for (const SolutionTerm& one : solutions) adjoints.push_back(adjoint_of<T>(one, g != nullptr));
  differentiate<T>(scores, std::move(adjoints), g, targets, threads);
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

#define ATTN_FOR_TYPE(T)                                                                         \
  template struct PlanForward<T>;                                                                \
  template void differentiate_plan(const Scores<T>&, const Potentials&, double,                  \
                                   const GradientTargets<T>&, int);                              \
  template void differentiate_plans(const Scores<T>&, std::span<const PlanTerm>,                 \
                                    const GradientTargets<T>&, int);                             \
  template void differentiate_solution(const Scores<T>&, const Potentials&,                      \
                                       const MatrixSource<T>*, std::span<const double>,          \
                                       std::span<const double>, const GradientTargets<T>&, int); \
  template void differentiate_solutions(const Scores<T>&, std::span<const SolutionTerm>,         \
                                        const MatrixSource<T>*, const GradientTargets<T>&, int);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
