#include "kernel/packed.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/packed.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernel/packed_tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attn::kernel::HWY_NAMESPACE {

template <class T>
void MultiplyPacked(T alpha, MatrixView<const T> a, const Packed<T>& b, Index col0,
                    MatrixView<T> out) {
  multiply_panels<T>(as_it_lies(a), a.cols, b, col0, 0, out, Scaled<T>{hn::Set(Tag<T>(), alpha)});
}

template <class T>
void MultiplyAddPacked(MatrixView<const T> a, const Packed<T>& b, Index row0, MatrixView<T> out) {
  multiply_panels<T>(as_it_lies(a), a.cols, b, 0, row0, out, Added<T>());
}

// Rows of `a` whose distance is a power of two share few sets of the first-level cache: with more
// at a time, they would evict each other.
constexpr Index transposed_rows = 64;

template <class T>
void MultiplyAddTransposedPacked(MatrixView<const T> a, const Packed<T>& b, Index row0,
                                 MatrixView<T> out) {
  for (Index i = 0; i < a.rows; i += transposed_rows) {
    const Index count = a.rows - i < transposed_rows ? a.rows - i : transposed_rows;
    multiply_panels<T>(Transposed<T>{a.row(i), a.row_stride}, count, b, 0, row0 + i, out,
                       Added<T>());
  }
}

}  // namespace attn::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#define ATTN_KERNEL_PREFIX template <>
#define ATTN_KERNELS(KERNEL, T)                                                               \
  KERNEL(T, Index, packed_width<T>, Width, (), ());                                           \
  KERNEL(T, Index, packed_vector<T>, lanes, (), ());                                          \
  KERNEL(T, void, multiply_packed, MultiplyPacked,                                            \
         (T alpha, MatrixView<const T> a, const Packed<T>& b, Index col0, MatrixView<T> out), \
         (alpha, a, b, col0, out));                                                           \
  KERNEL(T, void, multiply_add_packed, MultiplyAddPacked,                                     \
         (MatrixView<const T> a, const Packed<T>& b, Index row0, MatrixView<T> out),          \
         (a, b, row0, out));                                                                  \
  KERNEL(T, void, multiply_add_transposed_packed, MultiplyAddTransposedPacked,                \
         (MatrixView<const T> a, const Packed<T>& b, Index row0, MatrixView<T> out),          \
         (a, b, row0, out))
#include "kernel/dispatch-inl.hpp"

#if HWY_ONCE

#include <algorithm>

#include "parallel/parallel_for.hpp"

namespace attn::kernel {
namespace {

// to[r · stride + w] = b(w, r), by tiles that read whole cache lines, a few at a time, and write
// neighbouring memory. Column by column takes twice as long.
template <class T>
void transpose_into(MatrixView<const T> b, T* to, Index stride) {
  constexpr Index line = 64 / sizeof(T);
  constexpr Index together = 4;
  for (Index r0 = 0; r0 < b.cols; r0 += line) {
    const Index r1 = std::min(b.cols, r0 + line);
    Index w0 = 0;
    for (; w0 + together <= b.rows; w0 += together) {
      const T* const from = b.row(w0);
      for (Index r = r0; r < r1; ++r) {
        for (Index w = 0; w < together; ++w) to[r * stride + w0 + w] = from[w * b.row_stride + r];
      }
    }
    for (; w0 < b.rows; ++w0) {
      for (Index r = r0; r < r1; ++r) to[r * stride + w0] = b(w0, r);
    }
  }
}

}  // namespace

template <class T>
Packed<T>::Packed(Index depth, Index cols)
    : depth_(depth), cols_(cols), values_(padded(cols) * depth) {
  const Index vector = packed_vector<T>();
  last_ = padded(cols) <= width_ ? 0 : (padded(cols) - vector - 1) / width_ * width_;
}

template <class T>
Index Packed<T>::padded(Index cols) {
  const Index vector = packed_vector<T>();
  return (cols + vector - 1) / vector * vector;
}

template <class T>
std::int64_t Packed<T>::bytes(Index depth, Index cols) {
  return padded(cols) * depth * static_cast<std::int64_t>(sizeof(T));
}

template <class T>
PackedPanel<T> Packed<T>::panel(Index col, Index row) const {
  const Index first = std::min(col / width_ * width_, last_);
  const Index width = first < last_ ? width_ : padded(cols_) - last_;
  return {values_.data() + first * depth_ + row * width + (col - first), width,
          first + width - col};
}

template <class T>
Packed<T> Packed<T>::of(MatrixView<const T> b) {
  return of_scaled(b, nullptr);
}

template <class T>
Packed<T> Packed<T>::of_scaled(MatrixView<const T> b, const double* factor) {
  Packed packed(b.rows, b.cols);
  T* to = packed.values_.data();
  for (Index first = 0; first < b.cols;) {
    const Index width = packed.panel(first, 0).width;
    const Index count = std::min(width, b.cols - first);
    for (Index r = 0; r < b.rows; ++r, to += width) {
      const T* from = b.row(r) + first;
      const T by = factor == nullptr ? T{1} : static_cast<T>(factor[r]);
      for (Index c = 0; c < count; ++c) to[c] = from[c] * by;
      std::fill(to + count, to + width, T{0});
    }
    first += width;
  }
  return packed;
}

template <class T>
Packed<T> Packed<T>::of_transposed(MatrixView<const T> b, int threads) {
  Packed packed(b.cols, b.rows);
  const Index panels = b.rows == 0 ? 0 : packed.last_ / packed.width_ + 1;
  parallel_for(panels, threads, [&](Index panel, int) {
    const Index first = panel * packed.width_;
    const PackedPanel<T> place = packed.panel(first, 0);
    T* const to = packed.values_.data() + first * b.cols;
    const Index count = std::min(place.width, b.rows - first);
    if (count < place.width) std::fill_n(to, place.width * b.cols, T{0});
    transpose_into(b.row_range(first, count), to, place.width);
  });
  return packed;
}

template class Packed<float>;
template class Packed<double>;

}  // namespace attn::kernel
#endif
