#include "kernel/product.hpp"

#include "kernel/blas.hpp"
#include "kernel/blocked.hpp"
#include "kernel/few_rows.hpp"
#include "kernel/packed.hpp"
#include "tensor/buffer.hpp"

namespace attn::kernel {
namespace {

void call_blas(CBLAS_TRANSPOSE of_a, CBLAS_TRANSPOSE of_b, Index depth, MatrixView<const float> a,
               MatrixView<const float> b, bool adds, MatrixView<float> out) {
  cblas_sgemm(CblasRowMajor, of_a, of_b, blas_extent(out.rows), blas_extent(out.cols),
              blas_extent(depth), 1, a.data, leading_dimension(a.row_stride), b.data,
              leading_dimension(b.row_stride), adds ? 1 : 0, out.data,
              leading_dimension(out.row_stride));
}

void call_blas(CBLAS_TRANSPOSE of_a, CBLAS_TRANSPOSE of_b, Index depth, MatrixView<const double> a,
               MatrixView<const double> b, bool adds, MatrixView<double> out) {
  cblas_dgemm(CblasRowMajor, of_a, of_b, blas_extent(out.rows), blas_extent(out.cols),
              blas_extent(depth), 1, a.data, leading_dimension(a.row_stride), b.data,
              leading_dimension(b.row_stride), adds ? 1 : 0, out.data,
              leading_dimension(out.row_stride));
}

// out = op(a) op(b), or out += op(a) op(b), with op the transpose where asked for.
template <class T>
void blas_product(CBLAS_TRANSPOSE of_a, CBLAS_TRANSPOSE of_b, MatrixView<const T> a,
                  MatrixView<const T> b, bool adds, MatrixView<T> out) {
  const Index depth = of_a == CblasTrans ? a.rows : a.cols;
  if (out.rows == 0 || out.cols == 0 || (depth == 0 && adds)) return;
  const BlasCall call;
  call_blas(of_a, of_b, depth, a, b, adds, out);
}

// Whether panels of these columns would be padded by at most a third of the columns.
template <class T>
bool fills_panels(Index cols) {
  const Index width = packed_width<T>();
  const Index padded = (cols + width - 1) / width * width;
  return 4 * cols >= 3 * padded;
}

// The most rows for which reading b in place was faster, measured with AVX2 and AVX-512. The limit
// for a bᵀ is lower, because each element needs a sum over lanes at its end.
constexpr Index few_rows_of_transposed = 3;
constexpr Index few_rows = 16;

// With few columns, too, vectors are mostly empty: then for one row only.
template <class T>
bool has_few_rows(const MatrixView<T>& out) {
  return out.rows == 1 || (out.rows <= few_rows && fills_panels<T>(out.cols));
}

// Whether packing pays off. With AVX-512 it does from least_rows rows and least_depth terms on: on
// CPUs that are newer than OpenBLAS, OpenBLAS uses kernels of half the width. Without AVX-512,
// OpenBLAS is as fast for sums longer than short_sum, and up to twice as fast for aᵀ b.
template <class T>
bool is_worth_blocks(Index depth, const MatrixView<T>& out) {
  constexpr Index least_rows = 24;
  constexpr Index least_depth = 16;
  constexpr Index short_sum = 128;
  constexpr Index avx512_floats = 16;
  return out.rows >= least_rows && depth >= least_depth && fills_panels<T>(out.cols) &&
         (depth <= short_sum || packed_vector<float>() >= avx512_floats);
}

// The block of this thread. It is not from a plan's pool, because the thread can outlive the plan.
template <class T>
T* own_block() {
  thread_local const Buffer<T> block = [] {
    const MemoryPool::Use none(nullptr);
    return Buffer<T>(block_numbers<T>);
  }();
  return block.data();
}

template <class T>
void product_with_transposed(MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> out) {
  if (out.rows <= few_rows_of_transposed) return few_rows_transposed(T{1}, a, b, out);
  if (is_worth_blocks(a.cols, out)) return blocked_transposed_right(a, b, out, own_block<T>());
  blas_product(CblasNoTrans, CblasTrans, a, b, false, out);
}

template <class T>
void product(MatrixView<const T> a, MatrixView<const T> b, bool adds, MatrixView<T> out) {
  if (has_few_rows(out)) {
    if (!adds) set_to_zero(out);
    return few_rows_add(a, b, out);
  }
  if (is_worth_blocks(a.cols, out)) return blocked_right(a, b, adds, out, own_block<T>());
  blas_product(CblasNoTrans, CblasNoTrans, a, b, adds, out);
}

template <class T>
void product_of_transposed(MatrixView<const T> a, MatrixView<const T> b, bool adds,
                           MatrixView<T> out) {
  if (is_worth_blocks(a.rows, out)) return blocked_transposed_left(a, b, adds, out, own_block<T>());
  blas_product(CblasTrans, CblasNoTrans, a, b, adds, out);
}

}  // namespace

void multiply_transposed(MatrixView<const float> a, MatrixView<const float> b,
                         MatrixView<float> out) {
  product_with_transposed(a, b, out);
}

void multiply_transposed(MatrixView<const double> a, MatrixView<const double> b,
                         MatrixView<double> out) {
  product_with_transposed(a, b, out);
}

void multiply(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> out) {
  product(a, b, false, out);
}

void multiply(MatrixView<const double> a, MatrixView<const double> b, MatrixView<double> out) {
  product(a, b, false, out);
}

void multiply_add(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> out) {
  product(a, b, true, out);
}

void multiply_add(MatrixView<const double> a, MatrixView<const double> b, MatrixView<double> out) {
  product(a, b, true, out);
}

void transposed_product(MatrixView<const float> a, MatrixView<const float> b,
                        MatrixView<float> out) {
  product_of_transposed(a, b, false, out);
}

void transposed_product(MatrixView<const double> a, MatrixView<const double> b,
                        MatrixView<double> out) {
  product_of_transposed(a, b, false, out);
}

void add_transposed_product(MatrixView<const float> a, MatrixView<const float> b,
                            MatrixView<float> out) {
  product_of_transposed(a, b, true, out);
}

void add_transposed_product(MatrixView<const double> a, MatrixView<const double> b,
                            MatrixView<double> out) {
  product_of_transposed(a, b, true, out);
}

}  // namespace attn::kernel
