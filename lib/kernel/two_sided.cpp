#include "kernel/two_sided.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/two_sided.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "kernel/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attn::kernel::HWY_NAMESPACE {

// Four named members: GCC would keep a copy of an array up to date in memory.
template <class T>
struct Four {
  Vec<T> a, b, c, d;
};

// The rows of a tile, four at a time.
template <class T>
struct FourRows {
  const T* a;
  const T* b;
  const T* c;
  const T* d;
  FourRows(const T* first, Index stride)
      : a(first), b(first + stride), c(first + 2 * stride), d(first + 3 * stride) {}
};

template <class T>
HWY_INLINE Four<T> FourZeros() {
  const Vec<T> zero = hn::Zero(Tag<T>());
  return {zero, zero, zero, zero};
}

template <class T>
HWY_INLINE Four<T> FourFactors(const T* factor) {
  const Tag<T> d;
  return {hn::Set(d, factor[0]), hn::Set(d, factor[1]), hn::Set(d, factor[2]),
          hn::Set(d, factor[3])};
}

// Each row has one chain of products: registers suffice for four beside four factors.
template <class T>
HWY_INLINE void MultiplyRows(const FourRows<T>& rows, Index j, Vec<T> k, Four<T>& sum) {
  const Tag<T> d;
  sum.a = hn::MulAdd(hn::LoadU(d, rows.a + j), k, sum.a);
  sum.b = hn::MulAdd(hn::LoadU(d, rows.b + j), k, sum.b);
  sum.c = hn::MulAdd(hn::LoadU(d, rows.c + j), k, sum.c);
  sum.d = hn::MulAdd(hn::LoadU(d, rows.d + j), k, sum.d);
}

template <class T>
HWY_INLINE Vec<T> MultiplyColumns(const FourRows<T>& rows, Index j, const Four<T>& by, Vec<T> sum) {
  const Tag<T> d;
  sum = hn::MulAdd(hn::LoadU(d, rows.a + j), by.a, sum);
  sum = hn::MulAdd(hn::LoadU(d, rows.b + j), by.b, sum);
  sum = hn::MulAdd(hn::LoadU(d, rows.c + j), by.c, sum);
  return hn::MulAdd(hn::LoadU(d, rows.d + j), by.d, sum);
}

// The same for the last, incomplete vector.
template <class T>
HWY_INLINE void MultiplyRowEnds(const FourRows<T>& rows, Index j, Index width, Vec<T> k,
                                Four<T>& sum) {
  sum.a = hn::MulAdd(load_part<T>(rows.a + j, width), k, sum.a);
  sum.b = hn::MulAdd(load_part<T>(rows.b + j, width), k, sum.b);
  sum.c = hn::MulAdd(load_part<T>(rows.c + j, width), k, sum.c);
  sum.d = hn::MulAdd(load_part<T>(rows.d + j, width), k, sum.d);
}

template <class T>
HWY_INLINE Vec<T> MultiplyColumnEnds(const FourRows<T>& rows, Index j, Index width,
                                     const Four<T>& by, Vec<T> sum) {
  sum = hn::MulAdd(load_part<T>(rows.a + j, width), by.a, sum);
  sum = hn::MulAdd(load_part<T>(rows.b + j, width), by.b, sum);
  sum = hn::MulAdd(load_part<T>(rows.c + j, width), by.c, sum);
  return hn::MulAdd(load_part<T>(rows.d + j, width), by.d, sum);
}

template <class T>
HWY_INLINE void AddSums(const Four<T>& part, double* sum) {
  sum[0] += sum_lanes<T>(part.a);
  sum[1] += sum_lanes<T>(part.b);
  sum[2] += sum_lanes<T>(part.c);
  sum[3] += sum_lanes<T>(part.d);
}

template <class T>
HWY_INLINE void FourRowProducts(const FourRows<T>& rows, Index first, Index end, const T* factor,
                                double* sum) {
  const Index step = lanes<T>();
  Four<T> part = FourZeros<T>();
  Index j = first;
  for (; j + step <= end; j += step) {
    MultiplyRows<T>(rows, j, hn::LoadU(Tag<T>(), factor + j), part);
  }
  if (j < end) MultiplyRowEnds<T>(rows, j, end - j, load_part<T>(factor + j, end - j), part);
  AddSums<T>(part, sum);
}

template <class T>
void OneRowProducts(const T* row, Index first, Index end, const T* factor, double* sum) {
  const Tag<T> d;
  const Index step = lanes<T>();
  Vec<T> part = hn::Zero(d);
  Index j = first;
  for (; j + step <= end; j += step) {
    part = hn::MulAdd(hn::LoadU(d, row + j), hn::LoadU(d, factor + j), part);
  }
  if (j < end) {
    part = hn::MulAdd(load_part<T>(row + j, end - j), load_part<T>(factor + j, end - j), part);
  }
  *sum += sum_lanes<T>(part);
}

template <class T>
Index Run() {
  const Index most = terms_in_float * lanes<T>();
  return most < two_sided_cols ? most : two_sided_cols;
}

template <class T>
void RowProducts(MatrixView<const T> tile, const T* factor, double* sum) {
  for (Index first = 0; first < tile.cols; first += Run<T>()) {
    const Index end = tile.cols - first < Run<T>() ? tile.cols : first + Run<T>();
    Index i = 0;
    for (; i + two_sided_rows <= tile.rows; i += two_sided_rows) {
      const FourRows<T> rows(tile.row(i), tile.row_stride);
      FourRowProducts<T>(rows, first, end, factor, sum + i);
    }
    for (; i < tile.rows; ++i) OneRowProducts<T>(tile.row(i), first, end, factor, sum + i);
  }
}

template <class T>
void ColumnProducts(MatrixView<const T> tile, const T* factor, T* sum) {
  const Tag<T> d;
  const Index step = lanes<T>();
  Index i = 0;
  for (; i + two_sided_rows <= tile.rows; i += two_sided_rows) {
    const FourRows<T> rows(tile.row(i), tile.row_stride);
    const Four<T> by = FourFactors<T>(factor + i);
    Index j = 0;
    for (; j + step <= tile.cols; j += step) {
      hn::StoreU(MultiplyColumns<T>(rows, j, by, hn::LoadU(d, sum + j)), d, sum + j);
    }
    if (j < tile.cols) {
      const Index width = tile.cols - j;
      const Vec<T> before = load_part<T>(sum + j, width);
      store_part<T>(MultiplyColumnEnds<T>(rows, j, width, by, before), sum + j, width);
    }
  }
  for (; i < tile.rows; ++i) {
    const Vec<T> by = hn::Set(d, factor[i]);
    for (Index j = 0; j < tile.cols; j += step) {
      const Index width = tile.cols - j < step ? tile.cols - j : step;
      const Vec<T> before = load_part<T>(sum + j, width);
      store_part<T>(hn::MulAdd(load_part<T>(tile.row(i) + j, width), by, before), sum + j, width);
    }
  }
}

// Four packed rows from column `col` on, the start of a line in which rows are `width` apart.
template <class T>
HWY_INLINE FourRows<T> PackedRows(const T* packed, Index col, Index width) {
  return FourRows<T>(packed + two_sided_rows * col, width);
}

// How far ahead to prefetch. The second-level cache is the target (locality 2), because the first
// allows too few pending requests to keep memory busy.
constexpr Index bytes_ahead = 8192;

template <bool Columns, bool Rows, class T>
void PackedProducts(const TwoSided<T>& p) {
  const Tag<T> d;
  const Index step = lanes<T>();
  constexpr Index line = packed_line<T>();
  const Four<T> by = Columns ? FourFactors<T>(p.row_factor) : FourZeros<T>();
  for (Index first = 0; first < p.cols; first += Run<T>()) {
    const Index end = p.cols - first < Run<T>() ? p.cols : first + Run<T>();
    Four<T> part = FourZeros<T>();
    Index j = first;
    for (; j + line <= end; j += line) {
      const FourRows<T> old = PackedRows<T>(Columns ? p.now : p.next, j, line);
      const FourRows<T> coming = PackedRows<T>(Rows ? p.next : p.now, j, line);
      if (Rows && p.from_memory) {
        const char* ahead = reinterpret_cast<const char*>(coming.a) + bytes_ahead;
        for (Index r = 0; r < two_sided_rows; ++r) {
          __builtin_prefetch(ahead + r * 64, 0, 2);
        }
      }
      for (Index v = 0; v < line; v += step) {
        if (Rows) MultiplyRows<T>(coming, v, hn::LoadU(d, p.col_factor + j + v), part);
        if (Columns) {
          T* to = p.col_sum + j + v;
          hn::StoreU(MultiplyColumns<T>(old, v, by, hn::LoadU(d, to)), d, to);
        }
      }
    }
    // The remainder of each row.
    const Index rest = end - j;
    for (Index v = 0; v < rest; v += step) {
      const Index width = rest - v < step ? rest - v : step;
      if (Rows) {
        MultiplyRowEnds<T>(PackedRows<T>(p.next, j, rest), v, width,
                           load_part<T>(p.col_factor + j + v, width), part);
      }
      if (Columns) {
        T* to = p.col_sum + j + v;
        const Vec<T> before = load_part<T>(to, width);
        store_part<T>(MultiplyColumnEnds<T>(PackedRows<T>(p.now, j, rest), v, width, by, before),
                      to, width);
      }
    }
    if (Rows) AddSums<T>(part, p.row_sum);
  }
}

template <class T>
void PackedProductsOf(const TwoSided<T>& p) {
  if (p.now == nullptr) {
    PackedProducts<false, true, T>(p);
  } else if (p.next == nullptr) {
    PackedProducts<true, false, T>(p);
  } else {
    PackedProducts<true, true, T>(p);
  }
}

}  // namespace attn::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#define ATTN_KERNELS(KERNEL, T)                                                          \
  KERNEL(T, void, row_products, RowProducts,                                             \
         (MatrixView<const T> tile, const T* factor, double* sum), (tile, factor, sum)); \
  KERNEL(T, void, column_products, ColumnProducts,                                       \
         (MatrixView<const T> tile, const T* factor, T* sum), (tile, factor, sum));      \
  KERNEL(T, void, two_sided_products, PackedProductsOf, (const TwoSided<T>& products), (products))
#include "kernel/dispatch-inl.hpp"

#if HWY_ONCE
namespace attn::kernel {
namespace {

// Calls body(row, first column, columns, position in the packed rows).
template <class T, class Body>
void for_packed(Index cols, const Body& body) {
  for (Index first = 0; first < cols; first += packed_line<T>()) {
    const Index width = cols - first < packed_line<T>() ? cols - first : packed_line<T>();
    for (Index r = 0; r < two_sided_rows; ++r) {
      body(r, first, width, two_sided_rows * first + r * width);
    }
  }
}

template <class T>
void pack(MatrixView<const T> rows, T* packed) {
  for_packed<T>(rows.cols, [&](Index r, Index first, Index width, Index at) {
    std::copy_n(rows.row(r) + first, width, packed + at);
  });
}

template <class T>
void unpack(const T* packed, MatrixView<T> rows) {
  for_packed<T>(rows.cols, [&](Index r, Index first, Index width, Index at) {
    std::copy_n(packed + at, width, rows.row(r) + first);
  });
}

}  // namespace

void pack_rows(MatrixView<const float> rows, float* packed) { pack<float>(rows, packed); }
void pack_rows(MatrixView<const double> rows, double* packed) { pack<double>(rows, packed); }
void unpack_rows(const float* packed, MatrixView<float> rows) { unpack<float>(packed, rows); }
void unpack_rows(const double* packed, MatrixView<double> rows) { unpack<double>(packed, rows); }

}  // namespace attn::kernel
#endif
