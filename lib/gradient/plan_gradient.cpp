#include "gradient/plan_gradient.hpp"

#include <algorithm>
#include <utility>

#include "tensor/buffer.hpp"

namespace attn {

template <class T>
void differentiate_plan(const Scores<T>& scores, const Potentials& potentials, double coefficient,
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
  WeightAdjoint<T> adjoint;
  adjoint.f = to_subtract(potentials.row);
  adjoint.g = to_subtract(potentials.col);
  adjoint.row.assign(potentials.row.size(), static_cast<T>(coefficient));
  PooledVector<WeightAdjoint<T>> adjoints;
  adjoints.push_back(std::move(adjoint));
  differentiate_weights(forward, products, std::move(adjoints), targets, threads);
}

std::int64_t differentiate_plan_bytes(Index rows, Index cols, std::size_t element_size,
                                      int threads) {
  return differentiate_weights_bytes({rows, cols, 1, element_size, threads}, {}) +
         std::max(rows, cols) * static_cast<std::int64_t>(element_size);
}

template void differentiate_plan(const Scores<float>&, const Potentials&, double,
                                 const GradientTargets<float>&, int);
template void differentiate_plan(const Scores<double>&, const Potentials&, double,
                                 const GradientTargets<double>&, int);

}  // namespace attn
