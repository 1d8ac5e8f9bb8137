#pragma once

#include <algorithm>

#include "kernel/product.hpp"
#include "parallel/parallel_for.hpp"
#include "tensor/buffer.hpp"
#include "tensor/view.hpp"

namespace attn {

/// Calls body(first, count) for runs of [0, length) that depend only on `length`, on up to
/// `threads` threads: products of large matrices then have the same bits for any number of threads.
template <class Body>
void for_panels(Index length, int threads, const Body& body) {
  constexpr Index panel = 256;
  parallel_for((length + panel - 1) / panel, threads,
               [&](Index p, int) { body(p * panel, std::min(panel, length - p * panel)); });
}

/// out = a bᵀ for a (m,k), b (n,k), out (m,n), by panels of a.
template <class T>
void multiply_transposed_by_panels(MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> out,
                                   int threads) {
  for_panels(a.rows, threads, [&](Index first, Index count) {
    kernel::multiply_transposed(a.row_range(first, count), b, out.row_range(first, count));
  });
}

/// out += a b for a (m,k), b (k,n), out (m,n), by panels of a.
template <class T>
void multiply_add_by_panels(MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> out,
                            int threads) {
  for_panels(a.rows, threads, [&](Index first, Index count) {
    kernel::multiply_add(a.row_range(first, count), b, out.row_range(first, count));
  });
}

/// out += a bᵀ for a (m,k), b (n,k), out (m,n), by panels of a.
template <class T>
void add_product_transposed_by_panels(MatrixView<const T> a, MatrixView<const T> b,
                                      MatrixView<T> out, int threads) {
  for_panels(a.rows, threads, [&](Index first, Index count) {
    Buffer<T> storage(count * b.rows);
    const MatrixView<T> product(storage.data(), count, b.rows);
    kernel::multiply_transposed(a.row_range(first, count), b, product);
    for (Index i = 0; i < count; ++i) {
      T* row = out.row(first + i);
      for (Index j = 0; j < b.rows; ++j) row[j] += product(i, j);
    }
  });
}

}  // namespace attn
