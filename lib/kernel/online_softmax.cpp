#include "kernel/online_softmax.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/online_softmax.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>

#include "kernel/tile.hpp"
#include "kernel/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attn::kernel::HWY_NAMESPACE {

// Enough chains of dependent operations to fill the pipeline.
constexpr Index chains = 4;

template <class T>
T LargestOf(const T* s, Index n) {
  const Tag<T> d;
  const T nothing = static_cast<T>(minus_infinity);
  const Index step = lanes<T>();
  Vec<T> best[chains];
  for (auto& v : best) v = hn::Set(d, nothing);
  Index j = 0;
  for (; j + chains * step <= n; j += chains * step) {
    for (Index c = 0; c < chains; ++c) best[c] = hn::Max(best[c], hn::LoadU(d, s + j + c * step));
  }
  for (; j + step <= n; j += step) best[0] = hn::Max(best[0], hn::LoadU(d, s + j));
  if (j < n) best[0] = hn::Max(best[0], Tail<T>(s + j, n - j, nothing).vec());
  return largest_lane<T>(hn::Max(hn::Max(best[0], best[1]), hn::Max(best[2], best[3])));
}

template <class T>
bool RunningSoftmax(MatrixView<T> s, T* max, double* sum, T* factor, double* product) {
  bool changed = false;
  for (Index i = 0; i < s.rows; ++i) {
    const T before = max[i];
    const T largest = LargestOf<T>(s.row(i), s.cols);
    const T now = before < largest ? largest : before;
    const bool rescale = before < now && sum[i] > 0;
    const double by =
        rescale ? std::exp(static_cast<double>(before) - static_cast<double>(now)) : 1;
    factor[i] = static_cast<T>(by);
    max[i] = now;
    // While nothing is allowed, there is no maximum to subtract from −inf.
    const T shift = now == static_cast<T>(minus_infinity) ? T{0} : now;
    // By the factor as rounded to T, so that the sum matches the rescaled exponentials.
    const auto kept = static_cast<double>(factor[i]);
    if (rescale && product != nullptr) {
      const double lower = static_cast<double>(before) - static_cast<double>(now);
      product[i] = (product[i] + lower * sum[i]) * kept;
    }
    double* more = product == nullptr ? nullptr : product + i;
    sum[i] = sum[i] * kept + exp_row_shifted<T>(s.row(i), s.cols, shift, more);
    changed = changed || rescale;
  }
  return changed;
}

template <class T>
void ExpTile(MatrixView<T> s, double* row_sum, double* col_sum, double* row_product) {
  for (Index i = 0; i < s.rows; ++i) {
    double* product = row_product == nullptr ? nullptr : row_product + i;
    const double sum = exp_row_shifted<T>(s.row(i), s.cols, T{0}, product);
    if (row_sum != nullptr) row_sum[i] += sum;
  }
  if (col_sum != nullptr) add_columns(s, col_sum);
}

// sum_n += Σ_j row_j by_n,j for at most 64 terms a lane, for N vectors of factors in one reading.
template <int N, class T>
HWY_INLINE void AddProducts(const T* row, const T* const* by, Index n, double* const* sum) {
  const Tag<T> d;
  const Index step = lanes<T>();
  Vec<T> part[N][chains];
  for (auto& products : part) {
    for (auto& v : products) v = hn::Zero(d);
  }
  Index j = 0;
  for (; j + chains * step <= n; j += chains * step) {
    for (Index c = 0; c < chains; ++c) {
      const Index at = j + c * step;
      const Vec<T> x = hn::LoadU(d, row + at);
      for (int f = 0; f < N; ++f) part[f][c] = hn::MulAdd(x, hn::LoadU(d, by[f] + at), part[f][c]);
    }
  }
  for (; j < n; j += step) {
    const Index width = n - j < step ? n - j : step;
    const Vec<T> x = load_part<T>(row + j, width);
    for (int f = 0; f < N; ++f) {
      part[f][0] = hn::MulAdd(x, load_part<T>(by[f] + j, width), part[f][0]);
    }
  }
  for (int f = 0; f < N; ++f) {
    *sum[f] +=
        sum_lanes<T>(hn::Add(hn::Add(part[f][0], part[f][1]), hn::Add(part[f][2], part[f][3])));
  }
}

template <int N, class T>
void AddRowProducts(MatrixView<const T> tile, const double* const* factor, double* const* sum) {
  constexpr Index most = terms_in_float * HWY_MAX_BYTES / sizeof(T);
  const Index run = terms_in_float * lanes<T>();
  T narrow[N][most];
  const T* by[N];
  for (int f = 0; f < N; ++f) by[f] = narrow[f];
  for (Index first = 0; first < tile.cols; first += run) {
    const Index count = tile.cols - first < run ? tile.cols - first : run;
    for (int f = 0; f < N; ++f) {
      for (Index j = 0; j < count; ++j) narrow[f][j] = static_cast<T>(factor[f][first + j]);
    }
    for (Index i = 0; i < tile.rows; ++i) {
      double* to[N];
      for (int f = 0; f < N; ++f) to[f] = sum[f] + i;
      AddProducts<N, T>(tile.row(i) + first, by, count, to);
    }
  }
}

template <class T>
void ScaleColumnsSumRows(MatrixView<const T> in, const double* factor, MatrixView<T> out,
                         double* sum) {
  const Tag<T> d;
  constexpr Index most = terms_in_float * HWY_MAX_BYTES / sizeof(T);
  const Index run = terms_in_float * lanes<T>();
  T by[most];
  for (Index first = 0; first < in.cols; first += run) {
    const Index count = in.cols - first < run ? in.cols - first : run;
    for (Index j = 0; j < count; ++j) by[j] = static_cast<T>(factor[first + j]);
    for (Index i = 0; i < in.rows; ++i) {
      const T* row = in.row(i) + first;
      T* to = out.row(i) + first;
      RowSum<T> total;
      Index j = 0;
      for (; j + lanes<T>() <= count; j += lanes<T>()) {
        const Vec<T> scaled = hn::Mul(hn::LoadU(d, row + j), hn::LoadU(d, by + j));
        hn::StoreU(scaled, d, to + j);
        total.add(scaled);
      }
      if (j < count) {
        const Index rest = count - j;
        const Vec<T> scaled =
            hn::Mul(Tail<T>(row + j, rest, 0).vec(), Tail<T>(by + j, rest, 0).vec());
        store_first<T>(scaled, to + j, rest);
        total.add(scaled);
      }
      sum[i] += total.total();
    }
  }
}

// Works on the columns of several vectors at a time, for as many chains of dependent operations,
// and keeps per-column values in registers.
template <class T>
void AddScaledColumns(MatrixView<const T> tile, const T* factor, double* sum) {
  const Tag<T> d;
  constexpr Index wide = 2 * chains;
  const Index step = lanes<T>();
  Index j = 0;
  for (; j + wide * step <= tile.cols; j += wide * step) {
    for (Index first = 0; first < tile.rows; first += terms_in_float) {
      const Index last = tile.rows - first < terms_in_float ? tile.rows : first + terms_in_float;
      Vec<T> partial[wide];
      for (auto& v : partial) v = hn::Zero(d);
      for (Index i = first; i < last; ++i) {
        const Vec<T> by = hn::Set(d, factor[i]);
        const T* row = tile.row(i) + j;
        for (Index c = 0; c < wide; ++c) {
          partial[c] = hn::MulAdd(hn::LoadU(d, row + c * step), by, partial[c]);
        }
      }
      for (Index c = 0; c < wide; ++c) {
        double* to = sum + j + c * step;
        store_wide<T>(plus<T>(load_wide<T>(to), Widened<T>::of(partial[c])), to);
      }
    }
  }
  const MatrixView<const T> rest(tile.data + j, tile.rows, tile.cols - j, tile.row_stride);
  for_strips(rest, [&](Index at, const Strip<T>& strip) HWY_ATTR {
    ColumnSum<T> total(strip.load_column(sum + j + at, 0));
    for (Index i = 0; i < tile.rows; ++i) {
      total.add(hn::Mul(strip.load(i, 0), hn::Set(d, factor[i])));
    }
    strip.store_column(total.total(), sum + j + at);
  });
}

template <class T>
void AddOneRowProducts(MatrixView<const T> tile, const double* factor, double* sum) {
  AddRowProducts<1, T>(tile, &factor, &sum);
}

template <class T>
void MixColumns(MatrixView<T> tile, const double* col, const T* row, const T* plain) {
  const Tag<T> d;
  constexpr Index run = 256;
  T by[run];
  for (Index first = 0; first < tile.cols; first += run) {
    const Index count = tile.cols - first < run ? tile.cols - first : run;
    for (Index j = 0; j < count; ++j) by[j] = static_cast<T>(col[first + j]);
    for (Index i = 0; i < tile.rows; ++i) {
      const Vec<T> of_row = hn::Set(d, row[i]);
      const Vec<T> alone = hn::Set(d, plain[i]);
      T* const at = tile.row(i) + first;
      for_vectors<T>(count, [&](Index j, Index width) HWY_ATTR {
        const Vec<T> e = load_part<T>(at + j, width);
        // In this order, as a product of the two factors may be beyond the format.
        const Vec<T> scaled = hn::Mul(hn::Mul(e, load_part<T>(by + j, width)), of_row);
        store_part<T>(hn::MulAdd(e, alone, scaled), at + j, width);
      });
    }
  }
}

template <class T>
void AddTwoRowProducts(MatrixView<const T> tile, const double* const (&factor)[2],
                       double* const (&sum)[2]) {
  AddRowProducts<2, T>(tile, factor, sum);
}

}  // namespace attn::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#define ATTN_KERNELS(KERNEL, T)                                                               \
  KERNEL(T, bool, online_softmax, RunningSoftmax,                                             \
         (MatrixView<T> s, T * max, double* sum, T* factor, double* product),                 \
         (s, max, sum, factor, product));                                                     \
  KERNEL(T, void, exp_tile, ExpTile,                                                          \
         (MatrixView<T> s, double* row_sum, double* col_sum, double* row_product),            \
         (s, row_sum, col_sum, row_product));                                                 \
  KERNEL(T, void, add_row_products, AddOneRowProducts,                                        \
         (MatrixView<const T> tile, const double* factor, double* sum), (tile, factor, sum)); \
  KERNEL(T, void, add_two_row_products, AddTwoRowProducts,                                    \
         (MatrixView<const T> tile, const double* const(&factor)[2], double* const(&sum)[2]), \
         (tile, factor, sum));                                                                \
  KERNEL(T, void, scale_columns_sum_rows, ScaleColumnsSumRows,                                \
         (MatrixView<const T> in, const double* factor, MatrixView<T> out, double* sum),      \
         (in, factor, out, sum));                                                             \
  KERNEL(T, void, mix_columns, MixColumns,                                                    \
         (MatrixView<T> tile, const double* col, const T* row, const T* plain),               \
         (tile, col, row, plain));                                                            \
  KERNEL(T, void, add_scaled_columns, AddScaledColumns,                                       \
         (MatrixView<const T> tile, const T* factor, double* sum), (tile, factor, sum))
#include "kernel/dispatch-inl.hpp"
