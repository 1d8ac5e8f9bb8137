// Exponentials of a product with Packed while its sums are in registers, for the instruction set
// being compiled. Included once per instruction set, hence no #pragma once.

#if defined(ATTN_KERNEL_PACKED_EXP_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTN_KERNEL_PACKED_EXP_INL_HPP_
#undef ATTN_KERNEL_PACKED_EXP_INL_HPP_
#else
#define ATTN_KERNEL_PACKED_EXP_INL_HPP_
#endif

#include "kernel/packed_tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attn::kernel::HWY_NAMESPACE {

template <class T>
struct Exponential {
  Vec<T> alpha;
  Vec<T> operator()(Vec<T> sum, const T* /*out*/, Index /*row*/) const {
    return exp_near_zero(hn::Mul(sum, alpha));
  }
};

constexpr Index block_rows = 96;

// Row sums by lane, one vector for each row of the block, moved to float64 before they have too
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

// Sums by column if there is a col_sum, else by row. Not inlined: together the two would need more
// registers than there are.
template <bool ByCol, class T, class Left>
HWY_NOINLINE void exp_block(T alpha, Left a, Index depth, const Packed<T>& b, Index col0,
                            MatrixView<T> out, double* row_sum, double* col_sum) {
  const Exponential<T> finish{hn::Set(Tag<T>(), alpha)};
  BlockRowSums<T> by_row(out.rows);
  for (Index first = 0; first < out.cols; first += Width<T>()) {
    const MatrixView<T> part = columns_of(out, first, Width<T>());
    const PackedPanel<T> panel = b.panel(col0 + first, 0);
    if (part.cols < Width<T>()) {
      multiply_panel<T, tile_vectors>(a, depth, panel, part, finish);
      for (Index i = 0; i < part.rows; ++i) {
        if (!ByCol) add_in_order<T>(part.row(i), part.cols, row_sum + i);
        for (Index j = 0; ByCol && j < part.cols; ++j) {
          col_sum[first + j] += static_cast<double>(part(i, j));
        }
      }
      break;
    }
    PanelColumnSums<T> by_col;
    for_row_runs<tile_rows<tile_vectors>>(out.rows, [&](auto count, Index i) HWY_ATTR {
      constexpr int R = decltype(count)::value;
      multiply_tile<T, R, tile_vectors>(rows_from(a, i), panel, depth, part.row(i), part.row_stride,
                                        finish, [&](const auto& tile) HWY_ATTR {
                                          if constexpr (ByCol) {
                                            by_col.add(tile);
                                          } else {
                                            by_row.add(tile, i);
                                          }
                                        });
    });
    if (ByCol) by_col.flush(col_sum + first);
    by_row.terms += tile_vectors;
    if (!ByCol && by_row.terms + tile_vectors > terms_in_float) by_row.flush(row_sum);
  }
  if (!ByCol) by_row.flush(row_sum);
}

// Row sums, with the same bits, and row sums of each exponential times its logarithm, computed
// while it is in registers.
template <class T, class Left>
HWY_NOINLINE void exp_product_block(T alpha, Left a, Index depth, const Packed<T>& b, Index col0,
                                    MatrixView<T> out, double* row_sum, double* row_product) {
  const Vec<T> by = hn::Set(Tag<T>(), alpha);
  BlockRowSums<T> sums(out.rows);
  BlockRowSums<T> products(out.rows);
  for (Index first = 0; first < out.cols; first += Width<T>()) {
    const MatrixView<T> part = columns_of(out, first, Width<T>());
    const PackedPanel<T> panel = b.panel(col0 + first, 0);
    if (part.cols < Width<T>()) {
      multiply_panel<T, tile_vectors>(a, depth, panel, part, Scaled<T>{by});
      for (Index i = 0; i < part.rows; ++i) {
        exp_row_shifted<T>(part.row(i), part.cols, T{0}, row_product + i);
        add_in_order<T>(part.row(i), part.cols, row_sum + i);
      }
      break;
    }
    for_row_runs<tile_rows<tile_vectors>>(out.rows, [&](auto count, Index i) HWY_ATTR {
      constexpr int R = decltype(count)::value;
      multiply_tile<T, R, tile_vectors>(
          rows_from(a, i), panel, depth, part.row(i), part.row_stride,
          [&](Vec<T> sum, const T* /*out*/, Index row) HWY_ATTR {
            const Vec<T> x = hn::Mul(sum, by);
            const Vec<T> e = exp_near_zero(x);
            products.add_product(e, x, i + row);
            return e;
          },
          [&](const auto& tile) HWY_ATTR { sums.add(tile, i); });
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

// Works on blocks of rows, so that the sums of one block stay in the first-level cache.
template <class T, class Left>
void multiply_exp(T alpha, Left a, Index depth, const Packed<T>& b, Index col0, MatrixView<T> out,
                  double* row_sum, double* col_sum, double* row_product) {
  double unwanted[block_rows] = {};
  for (Index i = 0; i < out.rows; i += block_rows) {
    const Index count = out.rows - i < block_rows ? out.rows - i : block_rows;
    const Left rows = rows_from(a, i);
    const MatrixView<T> part = out.row_range(i, count);
    if (col_sum != nullptr) {
      exp_block<true, T>(alpha, rows, depth, b, col0, part, nullptr, col_sum);
    } else if (row_product != nullptr) {
      exp_product_block<T>(alpha, rows, depth, b, col0, part, row_sum + i, row_product + i);
    } else {
      double* sums = row_sum == nullptr ? unwanted : row_sum + i;
      exp_block<false, T>(alpha, rows, depth, b, col0, part, sums, nullptr);
    }
  }
}

}  // namespace attn::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
