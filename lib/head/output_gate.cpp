#include "head/output_gate.hpp"

#include <algorithm>
#include <cmath>
#include <span>

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

// Adds the terms of one query to `sums`, by channel or over all channels.
template <class T>
void add_row(const T* gate, const T* out, const T* grad_out, Index channels,
             std::span<double> sums) {
  const bool alike = sums.size() == 1;
  for (Index c = 0; c < channels; ++c) {
    const double share = open_share(static_cast<double>(gate[c]));
    sums[alike ? 0 : static_cast<std::size_t>(c)] +=
        static_cast<double>(grad_out[c]) * static_cast<double>(out[c]) * share * (1 - share);
  }
}

template <class T>
void round_to(const PooledVector<double>& sums, T* row) {
  std::transform(sums.begin(), sums.end(), row, [](double sum) { return static_cast<T>(sum); });
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
Buffer<T> through_gate(const MatrixSource<T>& gate, MatrixView<const T> rows) {
  Buffer<T> gated(rows.rows * rows.cols);
  const MatrixView<T> to(gated.data(), rows.rows, rows.cols);
  for (Index i = 0; i < to.rows; ++i) std::copy_n(rows.row(i), to.cols, to.row(i));
  apply_gate(gate, to);
  return gated;
}

template <class T>
void differentiate_gate(const MatrixSource<T>& gate, MatrixView<const T> out,
                        MatrixView<const T> grad_out, MatrixView<T> gradient) {
  PooledVector<double> sums(static_cast<std::size_t>(gradient.cols), 0.0);
  const bool by_query = gradient.rows > 1;
  for_gate_rows(gate, out.rows, out.cols, [&](Index i, const T* of_row) {
    if (by_query) std::fill(sums.begin(), sums.end(), 0.0);
    add_row<T>(of_row, out.row(i), grad_out.row(i), out.cols, sums);
    if (by_query) round_to(sums, gradient.row(i));
  });
  if (gradient.rows == 1) round_to(sums, gradient.row(0));
}

std::int64_t gate_bytes(Index queries, Index width, std::size_t element_size) {
  return (queries + 1) * width * static_cast<std::int64_t>(element_size) +
         width * static_cast<std::int64_t>(sizeof(double)) + 3 * buffer_margin;
}

#define ATTN_FOR_TYPE(T)                                                        \
  template void apply_gate(const MatrixSource<T>&, MatrixView<T>);              \
  template Buffer<T> through_gate(const MatrixSource<T>&, MatrixView<const T>); \
  template void differentiate_gate(const MatrixSource<T>&, MatrixView<const T>, \
                                   MatrixView<const T>, MatrixView<T>);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
