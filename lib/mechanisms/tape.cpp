#include "mechanisms/tape.hpp"

#include <algorithm>
#include <vector>

#include "kernel/few_rows.hpp"
#include "kernel/gradient.hpp"
#include "kernel/parallel.hpp"
#include "kernel/terms.hpp"
#include "mechanisms/places.hpp"

namespace attn::mechanisms {

template <class T>
Tape<T>::Tape(MatrixView<const T> v, Index places, Index memory)
    : v_(v), projections_(v.cols, places), memories_(places, memory) {}

template <class T>
void Tape<T>::set(Index place, const T* projection, const T* memory) {
  for (Index a = 0; a < v_.cols; ++a) projections_.view()(a, place) = projection[a];
  std::copy_n(memory, memories_.cols(), memories_.view().row(place));
}

template <class T>
void Tape<T>::attend(const T* u, Index n, T* weights, T* mean, int threads) const {
  std::fill_n(mean, memories_.cols(), T{0});
  if (n == 0) return;
  const Index parts = place_parts(n);
  kernel::parallel_for(parts, threads, [&](Index p, int /*worker*/) {
    const Index first = p * places_at_once;
    const Index count = std::min(places_at_once, n - first);
    kernel::tanh_energy({u, 1, v_.cols}, columns(projections_.read(), first, count), v_.data,
                        {weights + first, 1, count});
  });
  softmax_row(weights, n);
  Matrix<T> sums = Matrix<T>::zeros(parts, memories_.cols());
  kernel::parallel_for(parts, threads, [&](Index p, int /*worker*/) {
    const Index first = p * places_at_once;
    const Index count = std::min(places_at_once, n - first);
    kernel::few_rows_add({weights + first, 1, count}, memories_.read().row_range(first, count),
                         sums.view().row_range(p, 1));
  });
  for (Index p = 0; p < parts; ++p) {
    for (Index c = 0; c < sums.cols(); ++c) mean[c] += sums.read()(p, c);
  }
}

template <class T>
void Tape<T>::differentiate(const T* u, Index n, const T* dmean, T* weights, T* du, int threads) {
  if (memory_gradients_.data() == nullptr) {
    projection_gradients_ = Matrix<T>::zeros(projections_.rows(), projections_.cols());
    memory_gradients_ = Matrix<T>::zeros(memories_.rows(), memories_.cols());
    v_gradient_ = Matrix<double>::zeros(1, v_.cols);
  }
  std::fill_n(du, v_.cols, T{0});
  if (n == 0) return;
  const Index parts = place_parts(n);
  Matrix<T> dweights(1, n);
  kernel::parallel_for(parts, threads, [&](Index p, int /*worker*/) {
    const Index first = p * places_at_once;
    const Index count = std::min(places_at_once, n - first);
    kernel::few_rows_transposed(T{1}, {dmean, 1, memories_.cols()},
                                memories_.read().row_range(first, count),
                                {dweights.data() + first, 1, count});
    for (Index i = first; i < first + count; ++i) {
      T* const row = memory_gradients_.view().row(i);
      for (Index c = 0; c < memories_.cols(); ++c) row[c] += weights[i] * dmean[c];
    }
  });
  softmax_gradient(weights, dweights.data(), n);
  std::copy_n(dweights.data(), n, weights);
  Matrix<T> of_query = Matrix<T>::zeros(parts, v_.cols);
  Matrix<double> of_v = Matrix<double>::zeros(parts, v_.cols);
  kernel::parallel_for(parts, threads, [&](Index p, int /*worker*/) {
    const Index first = p * places_at_once;
    const Index count = std::min(places_at_once, n - first);
    kernel::add_tanh_gradient({u, 1, v_.cols}, columns(projections_.read(), first, count), v_.data,
                              {weights + first, 1, count}, of_query.view().row_range(p, 1),
                              columns(projection_gradients_.view(), first, count),
                              of_v.view().row(p));
  });
  for (Index p = 0; p < parts; ++p) {
    for (Index a = 0; a < v_.cols; ++a) {
      du[a] += of_query.read()(p, a);
      v_gradient_.data()[a] += of_v.read()(p, a);
    }
  }
}

template <class T>
void Tape<T>::projection_gradient(Index place, T* gradient) const {
  for (Index a = 0; a < v_.cols; ++a) gradient[a] = projection_gradients_.read()(a, place);
}

template <class T>
std::int64_t Tape<T>::bytes(Index places, Index inner, Index memory, bool gradients) {
  const Index sums = place_parts(places) * (memory + 3 * inner);
  return static_cast<std::int64_t>(sizeof(T)) *
         ((gradients ? 2 : 1) * places * (inner + memory) + 2 * places + sums);
}

template class Tape<float>;
template class Tape<double>;

}  // namespace attn::mechanisms
