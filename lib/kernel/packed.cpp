#include "kernel/packed.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/packed.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstddef>
#include <type_traits>

#include "kernel/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attn::kernel::HWY_NAMESPACE {

// A register tile is of six rows by so many vectors: with as many as fit beside the factors, each
// loaded vector is used six times and each broadcast number that often.
constexpr int tile_rows = 6;
#if HWY_TARGET <= HWY_AVX3  // 32 registers; lower is better
constexpr int tile_vectors = 4;
#else
constexpr int tile_vectors = 2;
#endif

// Elements of so many vectors, whatever the instruction set.
template <class T>
constexpr std::size_t most_elements(std::size_t vectors) {
  return vectors * (HWY_MAX_BYTES / sizeof(T));
}

template <class T>
Index Width() {
  return tile_vectors * lanes<T>();
}

// f(0) … f(N − 1) with constants: registers cannot be indexed by a variable, and a compiler that is
// left to unroll a loop may put them into memory first.
template <int N, int I = 0, class F>
HWY_INLINE void unrolled(const F& f) {
  if constexpr (I < N) {
    f(std::integral_constant<int, I>());
    unrolled<N, I + 1>(f);
  }
}

// One register tile: sums of R rows by one panel's columns.
template <class T, int R>
using Tile = Vec<T>[R][tile_vectors];

template <int R, class F>
HWY_INLINE void for_tile(const F& f) {
  unrolled<R>([&](auto r) HWY_ATTR { unrolled<tile_vectors>([&](auto v) HWY_ATTR { f(r, v); }); });
}

// What becomes of a finished sum that belongs at `out`, in that row of the register tile.
template <class T>
struct Scaled {
  Vec<T> alpha;
  Vec<T> operator()(Vec<T> sum, const T* /*out*/, Index /*row*/) const {
    return hn::Mul(sum, alpha);
  }
};
template <class T>
struct Added {
  Vec<T> operator()(Vec<T> sum, const T* out, Index /*row*/) const {
    return hn::Add(hn::LoadU(Tag<T>(), out), sum);
  }
};
template <class T>
struct Exponential {
  Vec<T> alpha;
  Vec<T> operator()(Vec<T> sum, const T* /*out*/, Index /*row*/) const {
    return exp_near_zero(hn::Mul(sum, alpha));
  }
};

// The factor on the left: element (r, k) lies at at[r * row + k * step].
template <class T>
struct AsItLies {
  const T* at;
  Index row;
  static constexpr Index step = 1;
};
template <class T>
struct Transposed {
  const T* at;
  Index step;
  static constexpr Index row = 1;
};
template <class T>
AsItLies<T> rows_from(AsItLies<T> a, Index i) {
  return {a.at + i * a.row, a.row};
}
template <class T>
Transposed<T> rows_from(Transposed<T> a, Index i) {
  return {a.at + i, a.step};
}

// out(r, ·) = finish(Σ_k a(r, k) · panel(k, ·)) for R rows, and observe(tile) of that. `out` has
// its rows out_stride apart.
template <class T, int R, class Left, class Finish, class Observe>
HWY_INLINE void multiply_tile(Left a, const T* HWY_RESTRICT panel, Index depth, T* HWY_RESTRICT out,
                              Index out_stride, const Finish& finish, const Observe& observe) {
  const Tag<T> d;
  const T* HWY_RESTRICT left = a.at;
  Tile<T, R> sum;
  for_tile<R>([&](auto r, auto v) HWY_ATTR { sum[r][v] = hn::Zero(d); });
  for (Index k = 0; k < depth; ++k) {
    Vec<T> b[tile_vectors];
    unrolled<tile_vectors>([&](auto v) HWY_ATTR { b[v] = hn::LoadU(d, panel + v * lanes<T>()); });
    unrolled<R>([&](auto r) HWY_ATTR {
      const Vec<T> x = hn::Set(d, left[r * a.row + k * a.step]);
      unrolled<tile_vectors>([&](auto v) HWY_ATTR { sum[r][v] = hn::MulAdd(x, b[v], sum[r][v]); });
    });
    panel += Width<T>();
  }
  for_tile<R>([&](auto r, auto v) HWY_ATTR {
    T* to = out + r * out_stride + v * lanes<T>();
    sum[r][v] = finish(sum[r][v], to, r);
    hn::StoreU(sum[r][v], d, to);
  });
  observe(sum);
}

// The same where only the first `width` columns of out are there, and nothing is observed.
template <class T, int R, class Left, class Finish>
HWY_NOINLINE void multiply_tile_part(Left a, const T* panel, Index depth, T* out, Index out_stride,
                                     Index width, const Finish& finish) {
  HWY_ALIGN T whole[R * most_elements<T>(tile_vectors)] = {};
  for (Index r = 0; r < R; ++r) {
    for (Index j = 0; j < width; ++j) whole[r * Width<T>() + j] = out[r * out_stride + j];
  }
  multiply_tile<T, R>(a, panel, depth, whole, Width<T>(), finish,
                      [](const Tile<T, R>& /*tile*/) {});
  for (Index r = 0; r < R; ++r) {
    for (Index j = 0; j < width; ++j) out[r * out_stride + j] = whole[r * Width<T>() + j];
  }
}

// body(count, i) for all rows, in runs of 6, 2 and 1 from row i on; count is a constant.
template <class Body>
HWY_INLINE void for_row_runs(Index rows, const Body& body) {
  Index i = 0;
  for (; i + tile_rows <= rows; i += tile_rows) body(std::integral_constant<int, tile_rows>(), i);
  for (; i + 2 <= rows; i += 2) body(std::integral_constant<int, 2>(), i);
  if (i < rows) body(std::integral_constant<int, 1>(), i);
}

// A panel of which only some columns are there.
template <class T, class Left, class Finish>
HWY_INLINE void multiply_panel_part(Left a, Index depth, const T* panel, MatrixView<T> out,
                                    const Finish& finish) {
  for_row_runs(out.rows, [&](auto count, Index i) HWY_ATTR {
    multiply_tile_part<T, decltype(count)::value>(rows_from(a, i), panel, depth, out.row(i),
                                                  out.row_stride, out.cols, finish);
  });
}

// One panel by all rows of out: it stays in the first-level cache. Of whole panels observe(tile, i)
// is shown what was written of the rows from i on.
template <class T, class Left, class Finish, class Observe>
HWY_INLINE void multiply_panel(Left a, Index depth, const T* panel, MatrixView<T> out,
                               const Finish& finish, const Observe& observe) {
  if (out.cols < Width<T>()) {
    multiply_panel_part<T>(a, depth, panel, out, finish);
    return;
  }
  for_row_runs(out.rows, [&](auto count, Index i) HWY_ATTR {
    constexpr int R = decltype(count)::value;
    multiply_tile<T, R>(rows_from(a, i), panel, depth, out.row(i), out.row_stride, finish,
                        [&](const Tile<T, R>& tile) HWY_ATTR { observe(tile, i); });
  });
}

template <class T>
AsItLies<T> as_it_lies(MatrixView<const T> a) {
  return {a.data, a.row_stride};
}

// The columns of `out` that lie in one panel.
template <class T>
MatrixView<T> panel_of(MatrixView<T> out, Index first) {
  const Index width = out.cols - first < Width<T>() ? out.cols - first : Width<T>();
  return MatrixView<T>(out.data + first, out.rows, width, out.row_stride);
}

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

// Rows of `a` that are apart by a power of two share few sets of the first-level cache: more than
// so many at a time would drive each other out of it.
constexpr Index transposed_rows = 64;

template <class T>
void MultiplyAddTransposedPacked(MatrixView<const T> a, const Packed<T>& b, Index row0,
                                 MatrixView<T> out) {
  for (Index i = 0; i < a.rows; i += transposed_rows) {
    const Index count = a.rows - i < transposed_rows ? a.rows - i : transposed_rows;
    Multiply<T>(Transposed<T>{a.row(i), a.row_stride}, count, b, 0, row0 + i, out, Added<T>());
  }
}

constexpr Index block_rows = 96;

// Row sums by lane, a vector for each row of the block, handed over to float64 before they have too
// many terms.
template <class T>
struct BlockRowSums {
  HWY_ALIGN T sum[most_elements<T>(block_rows)];
  Index rows;
  Index terms = 0;

  explicit BlockRowSums(Index count) : rows(count) { clear(); }
  void clear() {
    for (Index i = 0; i < rows; ++i) hn::Store(hn::Zero(Tag<T>()), Tag<T>(), sum + i * lanes<T>());
    terms = 0;
  }
  void flush(double* total) {
    for (Index i = 0; i < rows; ++i) {
      total[i] += sum_lanes<T>(hn::Load(Tag<T>(), sum + i * lanes<T>()));
    }
    clear();
  }
  template <int R>
  HWY_INLINE void add(const Vec<T> (&tile)[R][tile_vectors], Index i) {
    unrolled<R>([&](auto r) HWY_ATTR {
      T* at = sum + (i + r) * lanes<T>();
      Vec<T> more = tile[r][0];
      unrolled<tile_vectors - 1>([&](auto v) HWY_ATTR { more = hn::Add(more, tile[r][v + 1]); });
      hn::Store(hn::Add(hn::Load(Tag<T>(), at), more), Tag<T>(), at);
    });
  }
  HWY_INLINE void add_product(Vec<T> a, Vec<T> b, Index row) {
    T* at = sum + row * lanes<T>();
    hn::Store(hn::MulAdd(a, b, hn::Load(Tag<T>(), at)), Tag<T>(), at);
  }
};

// Column sums of one panel of the block: at most 16 terms a lane.
template <class T>
struct PanelColumnSums {
  HWY_ALIGN T sum[most_elements<T>(tile_vectors)] = {};

  void flush(double* total) const {
    for (Index j = 0; j < Width<T>(); ++j) total[j] += static_cast<double>(sum[j]);
  }
  template <int R>
  HWY_INLINE void add(const Vec<T> (&tile)[R][tile_vectors]) {
    unrolled<tile_vectors>([&](auto v) HWY_ATTR {
      T* at = sum + v * lanes<T>();
      Vec<T> more = tile[0][v];
      unrolled<R - 1>([&](auto r) HWY_ATTR { more = hn::Add(more, tile[r + 1][v]); });
      hn::Store(hn::Add(hn::Load(Tag<T>(), at), more), Tag<T>(), at);
    });
  }
};

template <class T>
void add_in_order(const T* row, Index n, double* sum) {
  for (Index j = 0; j < n; ++j) *sum += static_cast<double>(row[j]);
}

// Sums by column where there is a col_sum, else by row. Not inlined: together the two need more
// registers than there are.
template <bool ByCol, class T>
HWY_NOINLINE void ExpBlock(T alpha, MatrixView<const T> a, const Packed<T>& b, Index col0,
                           MatrixView<T> out, double* row_sum, double* col_sum) {
  const Exponential<T> finish{hn::Set(Tag<T>(), alpha)};
  BlockRowSums<T> by_row(a.rows);
  for (Index first = 0; first < out.cols; first += Width<T>()) {
    const MatrixView<T> part = panel_of(out, first);
    PanelColumnSums<T> by_col;
    multiply_panel<T>(as_it_lies(a), a.cols, b.at((col0 + first) / Width<T>(), 0), part, finish,
                      [&](const auto& tile, Index i) HWY_ATTR {
                        if constexpr (ByCol) {
                          by_col.add(tile);
                        } else {
                          by_row.add(tile, i);
                        }
                      });
    if (part.cols < Width<T>()) {
      for (Index i = 0; i < part.rows; ++i) {
        if (!ByCol) add_in_order<T>(part.row(i), part.cols, row_sum + i);
        for (Index j = 0; ByCol && j < part.cols; ++j) {
          col_sum[first + j] += static_cast<double>(part(i, j));
        }
      }
      break;
    }
    if (ByCol) by_col.flush(col_sum + first);
    by_row.terms += tile_vectors;
    if (!ByCol && by_row.terms + tile_vectors > terms_in_float) by_row.flush(row_sum);
  }
  if (!ByCol) by_row.flush(row_sum);
}

// Sums by row, to the same bits, and of each exponential times its logarithm while it is in
// registers.
template <class T>
HWY_NOINLINE void ExpProductBlock(T alpha, MatrixView<const T> a, const Packed<T>& b, Index col0,
                                  MatrixView<T> out, double* row_sum, double* row_product) {
  const Vec<T> by = hn::Set(Tag<T>(), alpha);
  BlockRowSums<T> sums(a.rows);
  BlockRowSums<T> products(a.rows);
  for (Index first = 0; first < out.cols; first += Width<T>()) {
    const MatrixView<T> part = panel_of(out, first);
    const T* panel = b.at((col0 + first) / Width<T>(), 0);
    if (part.cols < Width<T>()) {
      multiply_panel_part<T>(as_it_lies(a), a.cols, panel, part, Scaled<T>{by});
      for (Index i = 0; i < part.rows; ++i) {
        exp_row_shifted<T>(part.row(i), part.cols, T{0}, row_product + i);
        add_in_order<T>(part.row(i), part.cols, row_sum + i);
      }
      break;
    }
    for_row_runs(a.rows, [&](auto count, Index i) HWY_ATTR {
      constexpr int R = decltype(count)::value;
      multiply_tile<T, R>(
          rows_from(as_it_lies(a), i), panel, a.cols, part.row(i), part.row_stride,
          [&](Vec<T> sum, const T* /*out*/, Index row) HWY_ATTR {
            const Vec<T> x = hn::Mul(sum, by);
            const Vec<T> e = exp_near_zero(x);
            products.add_product(e, x, i + row);
            return e;
          },
          [&](const Tile<T, R>& tile) HWY_ATTR { sums.add(tile, i); });
    });
    sums.terms += tile_vectors;
    if (sums.terms + tile_vectors > terms_in_float) {
      sums.flush(row_sum);
      products.flush(row_product);
    }
  }
  sums.flush(row_sum);
  products.flush(row_product);
}

// Blocks of rows, so that the sums of one stay in the first-level cache.
template <class T>
void MultiplyExpPacked(T alpha, MatrixView<const T> a, const Packed<T>& b, Index col0,
                       MatrixView<T> out, double* row_sum, double* col_sum, double* row_product) {
  double unwanted[block_rows] = {};
  for (Index i = 0; i < a.rows; i += block_rows) {
    const Index count = a.rows - i < block_rows ? a.rows - i : block_rows;
    const MatrixView<const T> rows = a.row_range(i, count);
    if (col_sum != nullptr) {
      ExpBlock<true, T>(alpha, rows, b, col0, out.row_range(i, count), nullptr, col_sum);
    } else if (row_product != nullptr) {
      ExpProductBlock<T>(alpha, rows, b, col0, out.row_range(i, count), row_sum + i,
                         row_product + i);
    } else {
      double* sums = row_sum == nullptr ? unwanted : row_sum + i;
      ExpBlock<false, T>(alpha, rows, b, col0, out.row_range(i, count), sums, nullptr);
    }
  }
}

// Plain names for the dispatch tables, which know no overloads.
#define ATTN_FOR_TYPE(T, suffix)                                                                   \
  Index Width_##suffix() { return Width<T>(); }                                                    \
  void MultiplyPacked_##suffix(T alpha, MatrixView<const T> a, const Packed<T>& b, Index col0,     \
                               MatrixView<T> out) {                                                \
    MultiplyPacked<T>(alpha, a, b, col0, out);                                                     \
  }                                                                                                \
  void MultiplyExpPacked_##suffix(T alpha, MatrixView<const T> a, const Packed<T>& b, Index col0,  \
                                  MatrixView<T> out, double* row_sum, double* col_sum,             \
                                  double* row_product) {                                           \
    MultiplyExpPacked<T>(alpha, a, b, col0, out, row_sum, col_sum, row_product);                   \
  }                                                                                                \
  void MultiplyAddPacked_##suffix(MatrixView<const T> a, const Packed<T>& b, Index row0,           \
                                  MatrixView<T> out) {                                             \
    MultiplyAddPacked<T>(a, b, row0, out);                                                         \
  }                                                                                                \
  void MultiplyAddTransposedPacked_##suffix(MatrixView<const T> a, const Packed<T>& b, Index row0, \
                                            MatrixView<T> out) {                                   \
    MultiplyAddTransposedPacked<T>(a, b, row0, out);                                               \
  }
ATTN_FOR_TYPE(float, f32)
ATTN_FOR_TYPE(double, f64)
#undef ATTN_FOR_TYPE

}  // namespace attn::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <algorithm>

namespace attn::kernel {

#define ATTN_EXPORT(T, suffix)                                                               \
  HWY_EXPORT(Width_##suffix);                                                                \
  HWY_EXPORT(MultiplyPacked_##suffix);                                                       \
  HWY_EXPORT(MultiplyExpPacked_##suffix);                                                    \
  HWY_EXPORT(MultiplyAddPacked_##suffix);                                                    \
  HWY_EXPORT(MultiplyAddTransposedPacked_##suffix);                                          \
  template <>                                                                                \
  Index packed_width<T>() {                                                                  \
    return HWY_DYNAMIC_DISPATCH(Width_##suffix)();                                           \
  }                                                                                          \
  template <>                                                                                \
  void multiply_packed(T alpha, MatrixView<const T> a, const Packed<T>& b, Index col0,       \
                       MatrixView<T> out) {                                                  \
    HWY_DYNAMIC_DISPATCH(MultiplyPacked_##suffix)(alpha, a, b, col0, out);                   \
  }                                                                                          \
  template <>                                                                                \
  void multiply_exp_packed(T alpha, MatrixView<const T> a, const Packed<T>& b, Index col0,   \
                           MatrixView<T> out, double* row_sum, double* col_sum,              \
                           double* row_product) {                                            \
    HWY_DYNAMIC_DISPATCH(MultiplyExpPacked_##suffix)                                         \
    (alpha, a, b, col0, out, row_sum, col_sum, row_product);                                 \
  }                                                                                          \
  template <>                                                                                \
  void multiply_add_packed(MatrixView<const T> a, const Packed<T>& b, Index row0,            \
                           MatrixView<T> out) {                                              \
    HWY_DYNAMIC_DISPATCH(MultiplyAddPacked_##suffix)(a, b, row0, out);                       \
  }                                                                                          \
  template <>                                                                                \
  void multiply_add_transposed_packed(MatrixView<const T> a, const Packed<T>& b, Index row0, \
                                      MatrixView<T> out) {                                   \
    HWY_DYNAMIC_DISPATCH(MultiplyAddTransposedPacked_##suffix)(a, b, row0, out);             \
  }
ATTN_EXPORT(float, f32)
ATTN_EXPORT(double, f64)
#undef ATTN_EXPORT

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
