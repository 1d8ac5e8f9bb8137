#include "kernel/tile.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/tile.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>

#include "kernel/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attn::kernel::HWY_NAMESPACE {

template <class T>
double RowMax(const T* s, Index n, const double* g) {
  const T nothing = static_cast<T>(minus_infinity);
  const Index step = lanes<T>();
  const Index whole = n - n % step;
  if (g == nullptr) {
    Vec<T> best = hn::Set(Tag<T>(), nothing);
    for (Index j = 0; j < whole; j += step) best = hn::Max(best, hn::LoadU(Tag<T>(), s + j));
    if (whole < n) best = hn::Max(best, Tail<T>(s + whole, n - whole, nothing).vec());
    return static_cast<double>(largest_lane<T>(best));
  }
  Widened<T> best = broadcast_wide<T>(minus_infinity);
  for (Index j = 0; j < whole; j += step) {
    const auto v = Widened<T>::of(hn::LoadU(Tag<T>(), s + j));
    best = larger<T>(best, minus<T>(v, load_wide<T>(g + j)));
  }
  if (whole < n) {
    const auto v = Widened<T>::of(Tail<T>(s + whole, n - whole, nothing).vec());
    best = larger<T>(best, minus<T>(v, WideTail<T>(g + whole, n - whole, 0).wide()));
  }
  WideVec all = best.part[0];
  for (int i = 1; i < Widened<T>::parts; ++i) all = hn::Max(all, best.part[i]);
  return largest_lane<double>(all);
}

template <class T>
double ExpRow(T* out, const T* s, Index n, const double* g, double shift) {
  const Tag<T> d;
  const T nothing = static_cast<T>(minus_infinity);
  const Index step = lanes<T>();
  const Index whole = n - n % step;
  RowSum<T> sum;
  if (g == nullptr) {
    const Vec<T> base = hn::Set(d, static_cast<T>(shift));
    for (Index j = 0; j < whole; j += step) {
      const Vec<T> e = hn::Exp(d, hn::Sub(hn::LoadU(d, s + j), base));
      hn::StoreU(e, d, out + j);
      sum.add(e);
    }
    if (whole < n) {
      const Vec<T> v = Tail<T>(s + whole, n - whole, nothing).vec();
      const Vec<T> e = hn::Exp(d, hn::Sub(v, base));
      store_first<T>(e, out + whole, n - whole);
      sum.add(e);
    }
    return sum.total();
  }
  const Widened<T> base = broadcast_wide<T>(shift);
  for (Index j = 0; j < whole; j += step) {
    const auto v = Widened<T>::of(hn::LoadU(d, s + j));
    const Vec<T> e = hn::Exp(d, minus<T>(minus<T>(v, load_wide<T>(g + j)), base).narrow());
    hn::StoreU(e, d, out + j);
    sum.add(e);
  }
  if (whole < n) {
    const auto v = Widened<T>::of(Tail<T>(s + whole, n - whole, nothing).vec());
    const auto shifted = minus<T>(v, WideTail<T>(g + whole, n - whole, 0).wide());
    const Vec<T> e = hn::Exp(d, minus<T>(shifted, base).narrow());
    store_first<T>(e, out + whole, n - whole);
    sum.add(e);
  }
  return sum.total();
}

template <class T>
void ScaleRow(T* row, Index n, double factor) {
  const Tag<T> d;
  const Vec<T> by = hn::Set(d, static_cast<T>(factor));
  const Index step = lanes<T>();
  Index j = 0;
  for (; j + step <= n; j += step) hn::StoreU(hn::Mul(hn::LoadU(d, row + j), by), d, row + j);
  for (; j < n; ++j) row[j] *= static_cast<T>(factor);
}

template <class T>
void AddScaledRow(T* out, const T* in, Index n, double factor) {
  const Tag<T> d;
  const Vec<T> by = hn::Set(d, static_cast<T>(factor));
  const Index step = lanes<T>();
  Index j = 0;
  for (; j + step <= n; j += step) {
    hn::StoreU(hn::MulAdd(hn::LoadU(d, in + j), by, hn::LoadU(d, out + j)), d, out + j);
  }
  if (j < n) {
    const Vec<T> sum =
        hn::MulAdd(Tail<T>(in + j, n - j, 0).vec(), by, Tail<T>(out + j, n - j, 0).vec());
    store_first<T>(sum, out + j, n - j);
  }
}

template <class T>
double EntropyRow(const T* p, Index n) {
  const Tag<T> d;
  const Index step = lanes<T>();
  const Index whole = n - n % step;
  RowSum<T> sum;
  const auto add = [&](Vec<T> v) HWY_ATTR {
    const auto positive = hn::Gt(v, hn::Zero(d));
    const Vec<T> log = hn::Log(d, hn::IfThenElse(positive, v, hn::Set(d, T{1})));
    sum.add(hn::Mul(hn::Neg(v), log));
  };
  for (Index j = 0; j < whole; j += step) add(hn::LoadU(d, p + j));
  if (whole < n) add(Tail<T>(p + whole, n - whole, 0).vec());
  return sum.total();
}

template <class T>
double WeightedSum(const T* p, const T* s, Index n) {
  WideVec sum = hn::Zero(Wide());
  for_vectors<T>(n, [&](Index j, Index width) HWY_ATTR {
    const auto weight = Widened<T>::of(load_part<T>(p + j, width));
    const auto score = Widened<T>::of(load_part<T>(s + j, width));
    for (int i = 0; i < Widened<T>::parts; ++i) {
      const auto nothing = hn::Eq(weight.part[i], hn::Zero(Wide()));
      const WideVec product = hn::Mul(weight.part[i], score.part[i]);
      sum = hn::Add(sum, hn::IfThenZeroElse(nothing, product));
    }
  });
  return hn::GetLane(hn::SumOfLanes(Wide(), sum));
}

template <class T>
void ColumnMax(MatrixView<const T> s, const double* f, double* max) {
  const T nothing = static_cast<T>(minus_infinity);
  for_strips(s, [&](Index j, const Strip<T>& strip) HWY_ATTR {
    Widened<T> best = strip.load_column(max + j, minus_infinity);
    if (f == nullptr) {
      Vec<T> narrow = hn::Set(Tag<T>(), nothing);
      for (Index i = 0; i < s.rows; ++i) narrow = hn::Max(narrow, strip.load(i, nothing));
      best = larger<T>(best, Widened<T>::of(narrow));
    } else {
      for (Index i = 0; i < s.rows; ++i) {
        const auto v = Widened<T>::of(strip.load(i, nothing));
        best = larger<T>(best, minus<T>(v, broadcast_wide<T>(f[i])));
      }
    }
    strip.store_column(best, max + j);
  });
}

template <class T>
void ExpColumns(MatrixView<T> s, const double* f, const double* shift, double* sum) {
  const Tag<T> d;
  const T nothing = static_cast<T>(minus_infinity);
  for_strips(s, [&](Index j, const Strip<T>& strip) HWY_ATTR {
    const Widened<T> base = strip.load_column(shift + j, 0);
    const Vec<T> narrow_base = base.narrow();
    ColumnSum<T> total(strip.load_column(sum + j, 0));
    for (Index i = 0; i < s.rows; ++i) {
      const Vec<T> v = strip.load(i, nothing);
      const Vec<T> e =
          f == nullptr
              ? exp_flushed(hn::Sub(v, narrow_base))
              : hn::Exp(
                    d,
                    minus<T>(minus<T>(Widened<T>::of(v), broadcast_wide<T>(f[i])), base).narrow());
      strip.store(i, e);
      total.add(e);
    }
    strip.store_column(total.total(), sum + j);
  });
}

template <class T>
void ScaleColumns(MatrixView<T> tile, const double* factor) {
  for_strips(tile, [&](Index j, const Strip<T>& strip) HWY_ATTR {
    const Vec<T> by = strip.load_column(factor + j, 0).narrow();
    for (Index i = 0; i < tile.rows; ++i) strip.store(i, hn::Mul(strip.load(i, 0), by));
  });
}

template <class T>
void AddColumns(MatrixView<const T> tile, double* sum) {
  for_strips(tile, [&](Index j, const Strip<T>& strip) HWY_ATTR {
    ColumnSum<T> total(strip.load_column(sum + j, 0));
    for (Index i = 0; i < tile.rows; ++i) total.add(strip.load(i, 0));
    strip.store_column(total.total(), sum + j);
  });
}

template <class T>
void AddOuter(MatrixView<T> tile, const double* row, const double* col) {
  for_strips(tile, [&](Index j, const Strip<T>& strip) HWY_ATTR {
    const Widened<T> right = strip.load_column(col + j, 0);
    for (Index i = 0; i < tile.rows; ++i) {
      const Widened<T> norms = plus<T>(broadcast_wide<T>(row[i]), right);
      strip.store(i, plus<T>(Widened<T>::of(strip.load(i, 0)), norms).narrow());
    }
  });
}

const char* TargetName() { return hwy::TargetName(HWY_TARGET); }

}  // namespace attn::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#define ATTN_KERNELS(KERNEL, T)                                                                    \
  KERNEL(T, double, row_max, RowMax, (const T* s, Index n, const double* g), (s, n, g));           \
  KERNEL(T, double, exp_row, ExpRow,                                                               \
         (T * out, const T* s, Index n, const double* g, double shift), (out, s, n, g, shift));    \
  KERNEL(T, void, scale_row, ScaleRow, (T * row, Index n, double factor), (row, n, factor));       \
  KERNEL(T, void, add_scaled_row, AddScaledRow, (T * out, const T* in, Index n, double factor),    \
         (out, in, n, factor));                                                                    \
  KERNEL(T, double, entropy_row, EntropyRow, (const T* p, Index n), (p, n));                       \
  KERNEL(T, double, weighted_sum, WeightedSum, (const T* p, const T* s, Index n), (p, s, n));      \
  KERNEL(T, void, column_max, ColumnMax, (MatrixView<const T> s, const double* f, double* max),    \
         (s, f, max));                                                                             \
  KERNEL(T, void, exp_columns, ExpColumns,                                                         \
         (MatrixView<T> s, const double* f, const double* shift, double* sum),                     \
         (s, f, shift, sum));                                                                      \
  KERNEL(T, void, scale_columns, ScaleColumns, (MatrixView<T> tile, const double* factor),         \
         (tile, factor));                                                                          \
  KERNEL(T, void, add_columns, AddColumns, (MatrixView<const T> tile, double* sum), (tile, sum));  \
  KERNEL(T, void, add_outer, AddOuter, (MatrixView<T> tile, const double* row, const double* col), \
         (tile, row, col))
#include "kernel/dispatch-inl.hpp"

#if HWY_ONCE
namespace attn::kernel {

ATTN_EXPORT(TargetName);
const char* simd_description() { return ATTN_CHOSEN(TargetName)(); }

}  // namespace attn::kernel
#endif
