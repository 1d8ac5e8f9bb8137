#include "transport/points.hpp"

#include <algorithm>
#include <numeric>

#include "gradient/energy_gradient.hpp"
#include "gradient/plan_gradient.hpp"
#include "tensor/buffer.hpp"

namespace attn {
namespace {

template <class T>
typename Scores<T>::Terms terms_of(const Energy<T>& energy) {
  typename Scores<T>::Terms terms;
  terms.energy = &energy;
  return terms;
}

// Adds `factor` times the derivatives by both copies of the points. `differentiate` shows the
// derivatives by the scores to the sink of an energy with this scale.
template <class T, class Differentiate>
void add_of_both_copies(MatrixView<const T> points, double scale, double factor,
                        MatrixView<T> gradient, const Differentiate& differentiate) {
  if (gradient.data == nullptr) return;
  const Index numbers = points.rows * points.cols;
  const Buffer<T> first(numbers), second(numbers);
  const auto sink = make_product_gradient<T>(EnergyKind::gaussian, points, points, scale,
                                             {first.data(), points.rows, points.cols},
                                             {second.data(), points.rows, points.cols});
  GradientTargets<T> targets;
  targets.energies.push_back(sink.get());
  differentiate(targets);
  for (Index n = 0; n < numbers; ++n) {
    gradient.data[n] += static_cast<T>(factor) * (first[n] + second[n]);
  }
}

}  // namespace

template <class T>
SelfScores<T>::SelfScores(MatrixView<const T> points, double epsilon)
    : energy_(make_product_energy<T>(EnergyKind::gaussian, points, points, 2 / epsilon)),
      scores_(terms_of(*energy_)) {}

template <class T>
void subtract_self_gradient(MatrixView<const T> points, const Scores<T>& scores,
                            const Potentials& potentials, MatrixView<T> gradient, int threads) {
  add_of_both_copies<T>(points, 2, -0.5, gradient, [&](const GradientTargets<T>& targets) {
    differentiate_plan(scores, potentials, -1, targets, threads);
  });
}

template <class T>
void add_self_solution_gradient(MatrixView<const T> points, const Scores<T>& scores,
                                const Potentials& potentials, const ImplicitGradient& solved,
                                double unit, MatrixView<T> gradient, int threads) {
  add_of_both_copies<T>(points, 2 / unit, 1, gradient, [&](const GradientTargets<T>& targets) {
    differentiate_solution<T>(scores, potentials, nullptr, solved.row, solved.col, targets,
                              threads);
  });
}

template <class T>
void write_plan_gradient(MatrixView<const T> x, MatrixView<const T> y,
                         const PooledVector<PlanPair>& pairs, const EnergyGradients<T>& to) {
  PooledVector<double> by_x(static_cast<std::size_t>(x.rows * x.cols), 0.0);
  PooledVector<double> by_y(static_cast<std::size_t>(y.rows * y.cols), 0.0);
  for (const PlanPair& pair : pairs) {
    double* const row = by_x.data() + pair.row * x.cols;
    double* const col = by_y.data() + pair.col * y.cols;
    for (Index c = 0; c < x.cols; ++c) {
      const double away = static_cast<double>(x(pair.row, c)) - static_cast<double>(y(pair.col, c));
      row[c] += 2 * pair.mass * away;
      col[c] -= 2 * pair.mass * away;
    }
  }
  const auto write = [](const PooledVector<double>& from, MatrixView<T> gradient) {
    if (gradient.data == nullptr) return;
    std::transform(from.begin(), from.end(), gradient.data,
                   [](double value) { return static_cast<T>(value); });
  };
  write(by_x, to.q);
  write(by_y, to.k);
}

template <class T>
void add_missing_gradient(MatrixView<const T> x, const PooledVector<double>& e,
                          MatrixView<const T> y, const PooledVector<double>& d,
                          MatrixView<T> gradient) {
  const double total = std::accumulate(d.begin(), d.end(), 0.0);
  if (gradient.data == nullptr || total == 0) return;
  for (Index c = 0; c < x.cols; ++c) {
    double mean = 0;
    for (Index j = 0; j < y.rows; ++j) {
      mean += d[static_cast<std::size_t>(j)] / total * static_cast<double>(y(j, c));
    }
    for (Index i = 0; i < x.rows; ++i) {
      const double away = static_cast<double>(x(i, c)) - mean;
      gradient(i, c) += static_cast<T>(2 * e[static_cast<std::size_t>(i)] * away);
    }
  }
}

#define ATTN_FOR_TYPE(T)                                                                         \
  template class SelfScores<T>;                                                                  \
  template void subtract_self_gradient(MatrixView<const T>, const Scores<T>&, const Potentials&, \
                                       MatrixView<T>, int);                                      \
  template void add_self_solution_gradient(MatrixView<const T>, const Scores<T>&,                \
                                           const Potentials&, const ImplicitGradient&, double,   \
                                           MatrixView<T>, int);                                  \
  template void write_plan_gradient(MatrixView<const T>, MatrixView<const T>,                    \
                                    const PooledVector<PlanPair>&, const EnergyGradients<T>&);   \
  template void add_missing_gradient(MatrixView<const T>, const PooledVector<double>&,           \
                                     MatrixView<const T>, const PooledVector<double>&,           \
                                     MatrixView<T>);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
