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

template <class T, class Left, class Finish>
HWY_NOINLINE void Multiply(Left a, Index depth, const Packed<T>& b, Index panel0, Index row0,
                           MatrixView<T> out, const Finish& finish) {
  for (Index first = 0; first < out.cols; first += Width<T>()) {
    multiply_panel<T>(a, depth, b.at(panel0 + first / Width<T>(), row0), panel_of(out, first),
                      finish, [](const auto& /*tile*/, Index /*i*/) {});
  }
}

template <class T>
void MultiplyPacked(T alpha, MatrixView<const T> a, const Packed<T>& b, Index col0,
                    MatrixView<T> out) {
  Multiply<T>(as_it_lies(a), a.cols, b, col0 / Width<T>(), 0, out,
              Scaled<T>{hn::Set(Tag<T>(), alpha)});
}

template <class T>
void MultiplyAddPacked(MatrixView<const T> a, const Packed<T>& b, Index row0, MatrixView<T> out) {
  Multiply<T>(as_it_lies(a), a.cols, b, 0, row0, out, Added<T>());
}

// Rows of `a` whose distance is a power of two share few sets of the first-level cache: more than
// these at a time would evict each other.
constexpr Index transposed_rows = 64;

template <class T>
void MultiplyAddTransposedPacked(MatrixView<const T> a, const Packed<T>& b, Index row0,
                                 MatrixView<T> out) {
  for (Index i = 0; i < a.rows; i += transposed_rows) {
    const Index count = a.rows - i < transposed_rows ? a.rows - i : transposed_rows;
    Multiply<T>(Transposed<T>{a.row(i), a.row_stride}, count, b, 0, row0 + i, out, Added<T>());
  }
}

}  // namespace attn::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#define ATTN_KERNEL_PREFIX template <>
#define ATTN_KERNELS(KERNEL, T)                                                               \
  KERNEL(T, Index, packed_width<T>, Width, (), ());                                           \
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

namespace {

Index panels_of(Index cols, Index width) { return (cols + width - 1) / width; }

}  // namespace

template <class T>
Packed<T>::Packed(Index depth, Index cols)
    : depth_(depth), cols_(cols), values_(panels_of(cols, width_) * depth * width_) {}

template <class T>
std::int64_t Packed<T>::bytes(Index depth, Index cols) {
  const Index width = packed_width<T>();
  return panels_of(cols, width) * width * depth * static_cast<std::int64_t>(sizeof(T));
}

template <class T>
Packed<T> Packed<T>::of(MatrixView<const T> b) {
  return of_scaled(b, nullptr);
}

template <class T>
Packed<T> Packed<T>::of_scaled(MatrixView<const T> b, const double* factor) {
  Packed packed(b.rows, b.cols);
  const Index width = packed.width_;
  T* to = packed.values_.data();
  for (Index first = 0; first < b.cols; first += width) {
    const Index count = std::min(width, b.cols - first);
    for (Index r = 0; r < b.rows; ++r, to += width) {
      const T* from = b.row(r) + first;
      const T by = factor == nullptr ? T{1} : static_cast<T>(factor[r]);
      for (Index c = 0; c < count; ++c) to[c] = from[c] * by;
      std::fill(to + count, to + width, T{0});
    }
  }
  return packed;
}

template <class T>
Packed<T> Packed<T>::of_transposed(MatrixView<const T> b) {
  Packed packed(b.cols, b.rows);
  const Index width = packed.width_;
  T* panel = packed.values_.data();
  for (Index first = 0; first < b.rows; first += width, panel += width * b.cols) {
    const Index count = std::min(width, b.rows - first);
    if (count < width) std::fill_n(panel, width * b.cols, T{0});
    for (Index w = 0; w < count; ++w) {
      const T* from = b.row(first + w);
      for (Index r = 0; r < b.cols; ++r) panel[r * width + w] = from[r];
    }
  }
  return packed;
}

template class Packed<float>;
template class Packed<double>;

}  // namespace attn::kernel
#endif
