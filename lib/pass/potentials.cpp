#include "pass/potentials.hpp"

#include <algorithm>

#include "tensor/infinity.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

PooledVector<double> to_subtract(std::span<const double> potential) {
  PooledVector<double> values(potential.begin(), potential.end());
  std::replace(values.begin(), values.end(), minus_infinity, infinity);
  return values;
}

PooledVector<Component> hybrid_components(double hybrid, std::span<double> row,
                                          std::span<double> col, std::span<double> unas_row) {
  return {Component{hybrid, row, col}, Component{1 - hybrid, unas_row, {}}};
}

template <class T>
void show_weights(const Scores<T>& scores, Potentials& potentials, double hybrid,
                  const ObserverList<T>& observers, int threads) {
  Pass<T> pass;
  pass.scores = &scores;
  pass.completes = Completes::nothing;
  pass.observers = observers;
  if (potentials.unas_row.empty()) {
    pass.components = {Component{1, potentials.row, potentials.col}};
  } else {
    pass.components =
        hybrid_components(hybrid, potentials.row, potentials.col, potentials.unas_row);
  }
  run(pass, threads);
}

template void show_weights(const Scores<float>&, Potentials&, double, const ObserverList<float>&,
                           int);
template void show_weights(const Scores<double>&, Potentials&, double, const ObserverList<double>&,
                           int);

}  // namespace attn
