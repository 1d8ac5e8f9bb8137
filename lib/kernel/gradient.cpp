#include "kernel/gradient.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/gradient.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>

#include "kernel/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attn::kernel::HWY_NAMESPACE {

// x_ij of one row, one vector at a time.
template <class T>
class AdjointRow {
 public:
  AdjointRow(const Adjoint<T>& x, Index i)
      : g_(x.g.data == nullptr ? nullptr : x.g.row(i)),
        col_(x.factor == nullptr ? nullptr : x.col),
        weight_(hn::Set(Tag<T>(), x.weight)),
        row_(hn::Set(Tag<T>(), x.row == nullptr ? T{0} : x.row[i])),
        factor_(hn::Set(Tag<T>(), x.factor == nullptr ? T{0} : x.factor[i])) {}

  Vec<T> at(Index j, Index width) const {
    Vec<T> sum = row_;
    if (col_ != nullptr) sum = hn::MulAdd(factor_, load_part<T>(col_ + j, width), sum);
    if (g_ != nullptr) sum = hn::MulAdd(weight_, load_part<T>(g_ + j, width), sum);
    return sum;
  }

 private:
  const T* g_;
  const T* col_;
  Vec<T> weight_;
  Vec<T> row_;
  Vec<T> factor_;
};

template <class T>
void AdjointOfScores(MatrixView<const T> p, const Adjoint<T>& x, bool add, MatrixView<T> out) {
  for (Index i = 0; i < p.rows; ++i) {
    const AdjointRow<T> row(x, i);
    const T* weights = p.row(i);
    T* to = out.row(i);
    for_vectors<T>(p.cols, [&](Index j, Index width) HWY_ATTR {
      const Vec<T> weight = load_part<T>(weights + j, width);
      const Vec<T> factor = row.at(j, width);
      const Vec<T> product =
          add ? hn::MulAdd(weight, factor, load_part<T>(to + j, width)) : hn::Mul(weight, factor);
      store_part<T>(product, to + j, width);
    });
  }
}

template <class T>
void AddAdjointColumns(MatrixView<const T> p, const Adjoint<T>& x, double* sum) {
  for_strips(p, [&](Index j, const Strip<T>& strip) HWY_ATTR {
    ColumnSum<T> total(strip.load_column(sum + j, 0));
    for (Index i = 0; i < p.rows; ++i) {
      total.add(hn::Mul(strip.load(i, 0), AdjointRow<T>(x, i).at(j, strip.width)));
    }
    strip.store_column(total.total(), sum + j);
  });
}

template <class T>
void AddWeightedColumns(MatrixView<const T> p, const double* factor, double* sum) {
  for_strips(p, [&](Index j, const Strip<T>& strip) HWY_ATTR {
    Widened<T> total = strip.load_column(sum + j, 0);
    for (Index i = 0; i < p.rows; ++i) {
      const Widened<T> row = Widened<T>::of(strip.load(i, 0));
      const WideVec weight = hn::Set(Wide(), factor[i]);
      for (int part = 0; part < Widened<T>::parts; ++part) {
        total.part[part] = hn::MulAdd(weight, row.part[part], total.part[part]);
      }
    }
    strip.store_column(total, sum + j);
  });
}

template <class T>
void AddDifferenceColumns(MatrixView<const T> p, MatrixView<const T> r, const double* row,
                          const double* col, const Adjoint<T>& x, double* sum) {
  const Tag<T> d;
  const Vec<T> near = hn::Set(d, T{1});
  for_strips(p, [&](Index j, const Strip<T>& strip) HWY_ATTR {
    const Widened<T> right = strip.load_column(col + j, 0);
    ColumnSum<T> total(strip.load_column(sum + j, 0));
    for (Index i = 0; i < p.rows; ++i) {
      const Vec<T> y = minus<T>(broadcast_wide<T>(row[i]), right).narrow();
      const Vec<T> other = load_part<T>(r.row(i) + j, strip.width);
      const Vec<T> far = hn::Sub(strip.load(i, 0), other);
      const auto is_near = hn::Lt(hn::Abs(y), near);
      // Larger differences might be beyond the range of expm1.
      const Vec<T> change = hn::Expm1(d, hn::IfThenElseZero(is_near, y));
      const Vec<T> difference = hn::IfThenElse(is_near, hn::Mul(other, change), far);
      total.add(hn::Mul(difference, AdjointRow<T>(x, i).at(j, strip.width)));
    }
    strip.store_column(total.total(), sum + j);
  });
}

template <class T>
double DotRow(const T* p, const double* x, Index n) {
  WideVec total = hn::Zero(Wide());
  for_vectors<T>(n, [&](Index j, Index width) HWY_ATTR {
    const Widened<T> weights = Widened<T>::of(load_part<T>(p + j, width));
    Widened<T> factors = broadcast_wide<T>(1);
    if (x != nullptr) {
      factors = width == lanes<T>() ? load_wide<T>(x + j) : WideTail<T>(x + j, width, 0).wide();
    }
    for (int part = 0; part < Widened<T>::parts; ++part) {
      total = hn::MulAdd(weights.part[part], factors.part[part], total);
    }
  });
  return hn::GetLane(hn::SumOfLanes(Wide(), total));
}

// 1 − tanh²(x).
template <class D, class V>
V TanhSlope(D d, V x) {
  const V one = hn::Set(d, 1);
  const V e = hn::Exp(d, hn::Mul(hn::Set(d, -2), hn::Abs(x)));
  const V sum = hn::Add(one, e);
  return hn::Div(hn::Mul(hn::Set(d, 4), e), hn::Mul(sum, sum));
}

template <class T>
void SoftCapSlope(T* grad, const T* s, Index n, double cap) {
  const Wide wide;
  const WideVec limit = hn::Set(wide, cap);
  for_vectors<T>(n, [&](Index j, Index width) HWY_ATTR {
    const Widened<T> energy = Widened<T>::of(load_part<T>(s + j, width));
    Widened<T> slope = Widened<T>::of(load_part<T>(grad + j, width));
    for (int i = 0; i < Widened<T>::parts; ++i) {
      slope.part[i] = hn::Mul(slope.part[i], TanhSlope(wide, hn::Div(energy.part[i], limit)));
    }
    store_part<T>(slope.narrow(), grad + j, width);
  });
}

template <class T>
struct TanhAndSlope {
  Vec<T> tanh, slope;
};

// Both from e = exp(2|x|) - 1, so that the slope, 4 (e + 1)/(e + 2)^2, keeps its digits where tanh
// is near 1.
inline TanhAndSlope<float> tanh_and_slope(Vec<float> x) {
  const Tag<float> d;
  const Vec<float> e = expm1_of_twice(x);
  const Vec<float> inverse = hn::Div(hn::Set(d, 1.0F), hn::Add(e, hn::Set(d, 2.0F)));
  // In this order, as the square of `inverse` may underflow.
  const Vec<float> upper = hn::MulAdd(hn::Set(d, 4.0F), e, hn::Set(d, 4.0F));
  return {hn::CopySign(hn::Mul(e, inverse), x), hn::Mul(hn::Mul(upper, inverse), inverse)};
}

inline TanhAndSlope<double> tanh_and_slope(Vec<double> x) {
  const Tag<double> d;
  return {hn::Tanh(d, x), TanhSlope(d, x)};
}

template <class T>
void AddTanhGradient(MatrixView<const T> u, MatrixView<const T> v, const T* w,
                     MatrixView<const T> grad, MatrixView<T> du, MatrixView<T> dv, double* dw) {
  const Tag<T> d;
  for (Index i = 0; i < grad.rows; ++i) {
    for (Index a = 0; a < u.cols; ++a) {
      const Vec<T> query = hn::Set(d, u(i, a));
      const Vec<T> weight = hn::Set(d, w[a]);
      RowSum<T> of_query;
      RowSum<T> of_weight;
      for_vectors<T>(grad.cols, [&](Index j, Index width) HWY_ATTR {
        // Beyond the last column the gradient is 0, and so are its products.
        const Vec<T> x = hn::Add(query, load_part<T>(v.row(a) + j, width));
        const Vec<T> g = load_part<T>(grad.row(i) + j, width);
        const TanhAndSlope<T> of = tanh_and_slope(x);
        const Vec<T> z = hn::Mul(hn::Mul(g, weight), of.slope);
        T* to = dv.row(a) + j;
        store_part<T>(hn::Add(load_part<T>(to, width), z), to, width);
        of_query.add(z);
        of_weight.add(hn::Mul(g, of.tanh));
      });
      du(i, a) += static_cast<T>(of_query.total());
      dw[a] += of_weight.total();
    }
  }
}

}  // namespace attn::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#define ATTN_KERNELS(KERNEL, T)                                                               \
  KERNEL(T, void, adjoint_of_scores, AdjointOfScores,                                         \
         (MatrixView<const T> p, const Adjoint<T>& x, bool add, MatrixView<T> out),           \
         (p, x, add, out));                                                                   \
  KERNEL(T, void, add_adjoint_columns, AddAdjointColumns,                                     \
         (MatrixView<const T> p, const Adjoint<T>& x, double* sum), (p, x, sum));             \
  KERNEL(T, void, add_weighted_columns, AddWeightedColumns,                                   \
         (MatrixView<const T> p, const double* factor, double* sum), (p, factor, sum));       \
  KERNEL(T, void, add_difference_columns, AddDifferenceColumns,                               \
         (MatrixView<const T> p, MatrixView<const T> r, const double* row, const double* col, \
          const Adjoint<T>& x, double* sum),                                                  \
         (p, r, row, col, x, sum));                                                           \
  KERNEL(T, double, dot_row, DotRow, (const T* p, const double* x, Index n), (p, x, n));      \
  KERNEL(T, void, soft_cap_slope, SoftCapSlope, (T * grad, const T* s, Index n, double cap),  \
         (grad, s, n, cap));                                                                  \
  KERNEL(T, void, add_tanh_gradient, AddTanhGradient,                                         \
         (MatrixView<const T> u, MatrixView<const T> v, const T* w, MatrixView<const T> grad, \
          MatrixView<T> du, MatrixView<T> dv, double* dw),                                    \
         (u, v, w, grad, du, dv, dw))
#include "kernel/dispatch-inl.hpp"
