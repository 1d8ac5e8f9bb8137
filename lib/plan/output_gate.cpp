#include "plan/output_gate.hpp"

#include <algorithm>
#include <cmath>

#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

double open_share(double gate) { return 1 / (1 + std::exp(-gate)); }

// Calls body(i, the gate's row i) for all rows.
template <class T, class Body>
void for_gate_rows(const MatrixSource<T>& gate, Index rows, Index cols, const Body& body) {
  const Buffer<T> row(cols);
  for (Index i = 0; i < rows; ++i) {
    gate.read({i, 1, 0, cols}, MatrixView<T>(row.data(), 1, cols));
    body(i, row.data());
  }
}

}  // namespace

template <class T>
void apply_gate(const MatrixSource<T>& gate, MatrixView<T> out) {
  for_gate_rows(gate, out.rows, out.cols, [&](Index i, const T* of_row) {
    T* const row = out.row(i);
    for (Index c = 0; c < out.cols; ++c) {
      row[c] =
          static_cast<T>(open_share(static_cast<double>(of_row[c])) * static_cast<double>(row[c]));
    }
  });
}

template <class T>
Buffer<T> before_gate(const MatrixSource<T>& gate, MatrixView<const T> grad_out) {
  Buffer<T> gated(grad_out.rows * grad_out.cols);
  const MatrixView<T> to(gated.data(), grad_out.rows, grad_out.cols);
  for (Index i = 0; i < to.rows; ++i) std::copy_n(grad_out.row(i), to.cols, to.row(i));
  apply_gate(gate, to);
  return gated;
}

template <class T>
void differentiate_gate(const MatrixSource<T>& gate, MatrixView<const T> out,
                        MatrixView<const T> grad_out, MatrixView<T> gradient) {
  const Index rows = gradient.rows == 1 ? 1 : out.rows;
  const Index cols = gradient.cols == 1 ? 1 : out.cols;
  PooledVector<double> sums(static_cast<std::size_t>(rows * cols), 0.0);
  for_gate_rows(gate, out.rows, out.cols, [&](Index i, const T* of_row) {
    double* const to = sums.data() + (rows == 1 ? 0 : i) * cols;
    for (Index c = 0; c < out.cols; ++c) {
      const double share = open_share(static_cast<double>(of_row[c]));
      to[cols == 1 ? 0 : c] += static_cast<double>(grad_out(i, c)) *
                               static_cast<double>(out(i, c)) * share * (1 - share);
    }
  });
  for (Index i = 0; i < rows; ++i) {
    for (Index c = 0; c < cols; ++c) {
      gradient(i, c) = static_cast<T>(sums[static_cast<std::size_t>(i * cols + c)]);
    }
  }
}

std::int64_t gate_bytes(Index queries, Index width, std::size_t element_size) {
  return (queries + 1) * width * static_cast<std::int64_t>(element_size + sizeof(double)) +
         3 * buffer_margin;
}

#define ATTN_FOR_TYPE(T)                                                        \
  template void apply_gate(const MatrixSource<T>&, MatrixView<T>);              \
  template Buffer<T> before_gate(const MatrixSource<T>&, MatrixView<const T>);  \
  template void differentiate_gate(const MatrixSource<T>&, MatrixView<const T>, \
                                   MatrixView<const T>, MatrixView<T>);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
