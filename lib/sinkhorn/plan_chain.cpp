#include "sinkhorn/plan_chain.hpp"

#include <algorithm>

#include "kernel/factor.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

// out = plan · product, for square matrices.
template <class T>
void multiply_by_plan(const T* plan, MatrixView<const double> product, MatrixView<double> out) {
  for (Index i = 0; i < out.rows; ++i) {
    std::fill_n(out.row(i), out.cols, 0.0);
    for (Index k = 0; k < out.rows; ++k) {
      const auto factor = static_cast<double>(plan[i * out.rows + k]);
      for (Index j = 0; j < out.cols; ++j) out(i, j) += factor * product(k, j);
    }
  }
}

ChainGain gain_of(MatrixView<const double> product) {
  PooledVector<double> columns(static_cast<std::size_t>(product.cols), 0.0);
  ChainGain gain{kernel::largest_singular_value(product), 0, 0};
  for (Index i = 0; i < product.rows; ++i) {
    double sum = 0;
    for (Index j = 0; j < product.cols; ++j) {
      sum += product(i, j);
      columns[static_cast<std::size_t>(j)] += product(i, j);
    }
    gain.largest_row = std::max(gain.largest_row, sum);
  }
  gain.largest_column = *std::max_element(columns.begin(), columns.end());
  return gain;
}

}  // namespace

template <class T>
void chain_gains(const T* plans, Index depth, Index size, ChainGain* gains) {
  const auto numbers = static_cast<std::size_t>(size * size);
  PooledVector<double> now(numbers, 0.0);
  PooledVector<double> next(numbers);
  for (Index i = 0; i < size; ++i) now[static_cast<std::size_t>(i * size + i)] = 1;
  for (Index layer = 0; layer < depth; ++layer) {
    const MatrixView<double> product(next.data(), size, size);
    multiply_by_plan<T>(plans + layer * size * size, {now.data(), size, size}, product);
    gains[layer] = gain_of(product);
    std::swap(now, next);
  }
}

template void chain_gains(const float*, Index, Index, ChainGain*);
template void chain_gains(const double*, Index, Index, ChainGain*);

}  // namespace attn
