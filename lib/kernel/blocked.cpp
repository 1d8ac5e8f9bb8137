#include "kernel/blocked.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/blocked.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernel/packed_tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attn::kernel::HWY_NAMESPACE {

// The inner extent of a block. Rows of a transposed left-hand factor whose distance is a power of
// two share few sets of the first-level cache; more rows would evict each other.
constexpr Index block_depth = 256;
constexpr Index transposed_depth = 64;

template <class T>
struct Stored {
  Vec<T> operator()(Vec<T> sum, const T* /*out*/, Index /*row*/) const { return sum; }
};

template <class T>
AsItLies<T> from_inner(AsItLies<T> a, Index k) {
  return {a.at + k, a.row};
}
template <class T>
Transposed<T> from_inner(Transposed<T> a, Index k) {
  return {a.at + k * a.step, a.step};
}

// Packs b (depth, cols) panel by panel, as Packed::of does.
template <class T>
void PackRows(MatrixView<const T> b, T* to) {
  const Index width = Width<T>();
  for (Index first = 0; first < b.cols; first += width) {
    const Index count = b.cols - first < width ? b.cols - first : width;
    for (Index r = 0; r < b.rows; ++r, to += width) {
      const T* const from = b.row(r) + first;
      for (Index c = 0; c < count; ++c) to[c] = from[c];
      for (Index c = count; c < width; ++c) to[c] = T{0};
    }
  }
}

// to(r, w) = from(w, r) for w and r below 4.
template <class T>
HWY_INLINE void transpose_four(const T* from, Index from_stride, T* to, Index to_stride) {
  for (Index r = 0; r < 4; ++r) {
    for (Index w = 0; w < 4; ++w) to[r * to_stride + w] = from[w * from_stride + r];
  }
}
#if HWY_TARGET != HWY_SCALAR
HWY_INLINE void transpose_four(const float* from, Index from_stride, float* to, Index to_stride) {
  const hn::FixedTag<float, 4> d;
  const hn::FixedTag<double, 2> pairs;
  const auto r0 = hn::LoadU(d, from);
  const auto r1 = hn::LoadU(d, from + from_stride);
  const auto r2 = hn::LoadU(d, from + 2 * from_stride);
  const auto r3 = hn::LoadU(d, from + 3 * from_stride);
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, to + to_stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, to + 2 * to_stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, to + 3 * to_stride);
}
#endif

// Packs bᵀ for b (cols, depth), in squares of four, as Packed::of_transposed does.
template <class T>
void PackTransposed(MatrixView<const T> b, T* to) {
  const Index width = Width<T>();
  const Index depth = b.cols;
  for (Index first = 0; first < b.rows; first += width, to += width * depth) {
    const Index count = b.rows - first < width ? b.rows - first : width;
    const Index fours = count / 4 * 4;
    Index r = 0;
    for (; r + 4 <= depth; r += 4) {
      for (Index w = 0; w < fours; w += 4) {
        transpose_four(b.row(first + w) + r, b.row_stride, to + r * width + w, width);
      }
    }
    for (Index k = 0; k < depth; ++k) {
      for (Index w = k < r ? fours : 0; w < width; ++w) {
        to[k * width + w] = w < count ? b(first + w, k) : T{0};
      }
    }
  }
}

// out = a B, or out += a B, with B (depth, out.cols) packed by pack(first row, rows, first column,
// columns, memory), a multiple of Width<T>() columns at a time.
template <class T, class Left, class Pack>
HWY_NOINLINE void BlockedProduct(Left a, Index depth, Index most_depth, bool adds, T* block,
                                 const Pack& pack, MatrixView<T> out) {
  const Index most_cols = block_numbers<T> / most_depth / Width<T>() * Width<T>();
  for (Index col0 = 0; col0 < out.cols; col0 += most_cols) {
    const Index cols = out.cols - col0 < most_cols ? out.cols - col0 : most_cols;
    const MatrixView<T> part(out.data + col0, out.rows, cols, out.row_stride);
    for (Index k = 0; k < depth; k += most_depth) {
      const Index rows = depth - k < most_depth ? depth - k : most_depth;
      pack(k, rows, col0, cols, block);
      for (Index first = 0; first < cols; first += Width<T>()) {
        const PackedPanel<T> panel{block + first * rows, Width<T>(), Width<T>()};
        const MatrixView<T> to = columns_of(part, first, Width<T>());
        if (adds || k > 0) {
          multiply_panel<T, tile_vectors>(from_inner(a, k), rows, panel, to, Added<T>());
        } else {
          multiply_panel<T, tile_vectors>(from_inner(a, k), rows, panel, to, Stored<T>());
        }
      }
    }
  }
}

template <class T>
void BlockedTransposedRight(MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> out,
                            T* block) {
  BlockedProduct<T>(
      as_it_lies(a), a.cols, block_depth, false, block,
      [&](Index row0, Index rows, Index col0, Index cols, T* to) {
        PackTransposed<T>({b.row(col0) + row0, cols, rows, b.row_stride}, to);
      },
      out);
}

template <class T>
void BlockedRight(MatrixView<const T> a, MatrixView<const T> b, bool adds, MatrixView<T> out,
                  T* block) {
  BlockedProduct<T>(
      as_it_lies(a), a.cols, block_depth, adds, block,
      [&](Index row0, Index rows, Index col0, Index cols, T* to) {
        PackRows<T>({b.row(row0) + col0, rows, cols, b.row_stride}, to);
      },
      out);
}

template <class T>
void BlockedTransposedLeft(MatrixView<const T> a, MatrixView<const T> b, bool adds,
                           MatrixView<T> out, T* block) {
  BlockedProduct<T>(
      Transposed<T>{a.data, a.row_stride}, a.rows, transposed_depth, adds, block,
      [&](Index row0, Index rows, Index col0, Index cols, T* to) {
        PackRows<T>({b.row(row0) + col0, rows, cols, b.row_stride}, to);
      },
      out);
}

}  // namespace attn::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#define ATTN_KERNELS(KERNEL, T)                                                                  \
  KERNEL(T, void, blocked_transposed_right, BlockedTransposedRight,                              \
         (MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> out, T * block),           \
         (a, b, out, block));                                                                    \
  KERNEL(T, void, blocked_right, BlockedRight,                                                   \
         (MatrixView<const T> a, MatrixView<const T> b, bool adds, MatrixView<T> out, T* block), \
         (a, b, adds, out, block));                                                              \
  KERNEL(T, void, blocked_transposed_left, BlockedTransposedLeft,                                \
         (MatrixView<const T> a, MatrixView<const T> b, bool adds, MatrixView<T> out, T* block), \
         (a, b, adds, out, block))
#include "kernel/dispatch-inl.hpp"
