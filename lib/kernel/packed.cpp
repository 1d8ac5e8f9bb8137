#include "kernel/packed.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/packed.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernel/packed_tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attn::kernel::HWY_NAMESPACE {

// Adds a finished sum to the element of out.
template <class T>
struct Added {
  Vec<T> operator()(Vec<T> sum, const T* out, Index /*row*/) const {
    return hn::Add(hn::LoadU(Tag<T>(), out), sum);
  }
};

template <class T>
void MultiplyPacked(T alpha, MatrixView<const T> a, const Packed<T>& b, Index col0,
                    MatrixView<T> out) {
  multiply_panels<T>(as_it_lies(a), a.cols, b, col0, 0, out, Scaled<T>{hn::Set(Tag<T>(), alpha)});
}

template <class T>
void MultiplyAddPacked(MatrixView<const T> a, const Packed<T>& b, Index row0, MatrixView<T> out) {
  multiply_panels<T>(as_it_lies(a), a.cols, b, 0, row0, out, Added<T>());
}

// Rows of `a` whose distance is a power of two share few sets of the first-level cache: more than
// these at a time would evict each other.
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

namespace attn::kernel {

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
Packed<T> Packed<T>::of_transposed(MatrixView<const T> b) {
  Packed packed(b.cols, b.rows);
  T* panel = packed.values_.data();
  for (Index first = 0; first < b.rows;) {
    const Index width = packed.panel(first, 0).width;
    const Index count = std::min(width, b.rows - first);
    if (count < width) std::fill_n(panel, width * b.cols, T{0});
    for (Index w = 0; w < count; ++w) {
      const T* from = b.row(first + w);
      for (Index r = 0; r < b.cols; ++r) panel[r * width + w] = from[r];
    }
    panel += width * b.cols;
    first += width;
  }
  return packed;
}

template class Packed<float>;
template class Packed<double>;

}  // namespace attn::kernel
#endif
