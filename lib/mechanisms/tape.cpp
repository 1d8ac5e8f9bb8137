#include "mechanisms/tape.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "kernel/gradient.hpp"
#include "kernel/magnitudes.hpp"
#include "kernel/product.hpp"
#include "kernel/tanh_of_products.hpp"
#include "kernel/terms.hpp"
#include "kernel/tile.hpp"
#include "mechanisms/places.hpp"
#include "parallel/parallel_for.hpp"

namespace attn::mechanisms {

namespace {

// exp(2x) of n numbers into `to` if none of them is too large.
template <class T>
bool exponentials_of(const T* x, Index n, T* to) {
  for (Index a = 0; a < n; ++a) {
    if (!(std::abs(x[a]) <= static_cast<T>(kernel::largest_tanh_addend))) return false;
    to[a] = 2 * x[a];
  }
  kernel::exp_row(to, to, n, nullptr, 0);
  return true;
}

}  // namespace

template <class T>
Tape<T>::Tape(MatrixView<const T> v, Index places, Index memory)
    : v_(v),
      projections_(blocks(places) * v.cols, block),
      exponentials_(blocks(places) * v.cols, block),
      small_(static_cast<std::size_t>(blocks(places)),
             kernel::largest_magnitude(v.data, v.cols) <= kernel::largest_tanh_weight),
      memories_(places, memory) {
  static_assert(places_at_once % block == 0);
}

template <class T>
void Tape<T>::set(Index place, const T* projection, const T* memory) {
  const Index column = place % block;
  const auto write = [&](const OwnedMatrix<T>& all, const T* numbers) {
    const auto to = of_block(all, place - column, block);
    for (Index a = 0; a < v_.cols; ++a) to(a, column) = numbers[a];
  };
  write(projections_, projection);
  OwnedMatrix<T> exponentials(1, v_.cols);
  if (exponentials_of(projection, v_.cols, exponentials.data())) {
    write(exponentials_, exponentials.data());
  } else {
    small_[static_cast<std::size_t>(place / block)] = 0;
  }
  std::copy_n(memory, memories_.cols(), memories_.view().row(place));
}

template <class T>
typename Tape<T>::Query Tape<T>::query(const T* u) const {
  OwnedMatrix<T> exponentials(1, v_.cols);
  if (!exponentials_of(u, v_.cols, exponentials.data())) return {u, {}};
  return {u, std::move(exponentials)};
}

template <class T>
void Tape<T>::energies(const Query& query, Index first, Index count, T* found) const {
  if (by_products(query, first)) {
    kernel::energy_of_products(query.exponentials.data(), of_block(exponentials_, first, count),
                               v_.data, found);
  } else {
    kernel::tanh_energy({query.u, 1, v_.cols}, of_block(projections_, first, count), v_.data,
                        {found, 1, count});
  }
}

template <class T>
SoftmaxScale Tape<T>::attend(const T* u, Index n, T* weights, T* mean, int threads) const {
  std::fill_n(mean, memories_.cols(), T{0});
  if (n == 0) return {};
  const Query asked = query(u);
  // Each part has a scale and a mean of its own, not yet divided.
  const Index parts = place_parts(n);
  OwnedMatrix<double> largest(1, parts);
  OwnedMatrix<double> sum(1, parts);
  OwnedMatrix<T> means = OwnedMatrix<T>::zeros(parts, memories_.cols());
  parallel_for(parts, threads, [&](Index p, int /*worker*/) {
    const Index start = p * places_at_once;
    const Index length = std::min(places_at_once, n - start);
    std::array<T, places_at_once> exponentials;
    T* const e = exponentials.data();
    for (Index at = 0; at < length; at += block) {
      energies(asked, start + at, std::min(block, length - at), e + at);
    }
    require_finite(e, length);
    largest.data()[p] = kernel::row_max(e, length, nullptr);
    sum.data()[p] = kernel::exp_row(e, e, length, nullptr, largest.data()[p]);
    kernel::multiply_add({e, 1, length}, memories_.read().row_range(start, length),
                         means.view().row_range(p, 1));
    if (weights != nullptr) std::copy_n(e, length, weights + start);
  });
  SoftmaxScale scale{-std::numeric_limits<double>::infinity(), 0};
  for (Index p = 0; p < parts; ++p) scale.largest = std::max(scale.largest, largest.data()[p]);
  const auto factor = [&](Index p) { return std::exp(largest.data()[p] - scale.largest); };
  for (Index p = 0; p < parts; ++p) scale.sum += factor(p) * sum.data()[p];
  for (Index p = 0; p < parts; ++p) {
    const double share = factor(p) / scale.sum;
    for (Index c = 0; c < means.cols(); ++c) mean[c] += static_cast<T>(share) * means.read()(p, c);
    if (weights == nullptr) continue;
    const Index start = p * places_at_once;
    kernel::scale_row(weights + start, std::min(places_at_once, n - start), share);
  }
  return scale;
}

template <class T>
void Tape<T>::start_gradients() {
  is_differentiated_ = true;
  projection_gradients_ = OwnedMatrix<T>::zeros(projections_.rows(), block);
  memory_gradients_ = OwnedMatrix<T>::zeros(memories_.rows(), memories_.cols());
  v_gradient_ = OwnedMatrix<double>::zeros(1, v_.cols);
  waiting_weights_ = OwnedMatrix<T>(calls_at_once, memories_.rows());
  waiting_dmeans_ = OwnedMatrix<T>(calls_at_once, memories_.cols());
}

template <class T>
void Tape<T>::add_waiting_memory_gradients(int threads) {
  const Index places = memories_.rows();
  parallel_for(place_parts(places), threads, [&](Index p, int /*worker*/) {
    const Index first = p * places_at_once;
    const Index count = std::min(places_at_once, places - first);
    kernel::add_transposed_product(columns(waiting_weights_.read(), first, count),
                                   waiting_dmeans_.read(),
                                   memory_gradients_.view().row_range(first, count));
  });
  waiting_ = 0;
}

template <class T>
void Tape<T>::add_memory_gradient(Index place, T* gradient) const {
  const auto add = [&](T weight, const T* from) {
    for (Index c = 0; c < memories_.cols(); ++c) gradient[c] += weight * from[c];
  };
  add(1, memory_gradients_.read().row(place));
  for (Index call = 0; call < waiting_; ++call) {
    add(waiting_weights_.read()(call, place), waiting_dmeans_.read().row(call));
  }
}

template <class T>
void Tape<T>::differentiate(const T* u, Index n, const SoftmaxScale& scale, const T* dmean, T* du,
                            int threads) {
  const Index width = memories_.cols();
  if (!is_differentiated()) start_gradients();
  std::fill_n(du, v_.cols, T{0});
  if (n == 0) return;
  const Query asked = query(u);
  const Index parts = place_parts(n);
  const auto for_blocks = [&](Index p, const auto& body) {
    const Index end = std::min(n, (p + 1) * places_at_once);
    for (Index first = p * places_at_once; first < end; first += block) {
      body(first, std::min(block, end - first));
    }
  };
  if (waiting_ == calls_at_once) add_waiting_memory_gradients(threads);
  T* const weights = waiting_weights_.view().row(waiting_);
  std::fill(weights + n, weights + memories_.rows(), T{0});
  std::copy_n(dmean, width, waiting_dmeans_.view().row(waiting_));
  ++waiting_;
  OwnedMatrix<T> dweights(1, n);
  parallel_for(parts, threads, [&](Index p, int /*worker*/) {
    for_blocks(p, [&](Index first, Index count) {
      T* const own = weights + first;
      energies(asked, first, count, own);
      kernel::exp_row(own, own, count, nullptr, scale.largest);
      kernel::scale_row(own, count, 1 / scale.sum);
      kernel::multiply_transposed({dmean, 1, width}, memories_.read().row_range(first, count),
                                  {dweights.data() + first, 1, count});
    });
  });
  // Not from the mean: all places would share its rounding, and du is the small rest of large sums.
  softmax_gradient(weights, dweights.data(), n);
  OwnedMatrix<T> of_query = OwnedMatrix<T>::zeros(parts, v_.cols);
  OwnedMatrix<double> of_v = OwnedMatrix<double>::zeros(parts, v_.cols);
  parallel_for(parts, threads, [&](Index p, int /*worker*/) {
    for_blocks(p, [&](Index first, Index count) {
      const T* const own = dweights.data() + first;
      const auto dprojections = of_block(projection_gradients_, first, count);
      if (by_products(asked, first)) {
        kernel::add_gradient_of_products(asked.exponentials.data(),
                                         of_block(exponentials_, first, count), v_.data, own,
                                         of_query.view().row(p), dprojections, of_v.view().row(p));
      } else {
        kernel::add_tanh_gradient({u, 1, v_.cols}, of_block(projections_, first, count), v_.data,
                                  {own, 1, count}, of_query.view().row_range(p, 1), dprojections,
                                  of_v.view().row(p));
      }
    });
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
  const Index column = place % block;
  const auto from = of_block(projection_gradients_, place - column, block);
  for (Index a = 0; a < v_.cols; ++a) gradient[a] = from(a, column);
}

template <class T>
std::int64_t Tape<T>::bytes(Index places, Index inner, Index memory, bool gradients) {
  const Index projections = blocks(places) * block * inner;
  const Index sums = place_parts(places) * (memory + 3 * inner + 4);
  return static_cast<std::int64_t>(sizeof(T)) *
             ((gradients ? 3 : 2) * projections + (gradients ? 2 : 1) * places * memory + sums +
              2 * inner + (gradients ? (calls_at_once + 1) * places + calls_at_once * memory : 0)) +
         blocks(places);
}

template class Tape<float>;
template class Tape<double>;

}  // namespace attn::mechanisms
