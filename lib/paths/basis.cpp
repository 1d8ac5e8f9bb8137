#include "paths/basis.hpp"

#include <cmath>

#include "parallel/parallel_for.hpp"

namespace attn {
namespace {

// The row of W_K at `place` among the rows without the skeleton's.
Index other_row(Index place, Index skipped) { return place + (place >= skipped ? 1 : 0); }

// The place of a row that is not the skeleton's.
Index place_of(Index row, Index skipped) { return row - (row > skipped ? 1 : 0); }

Index rows_of(Index basis_row_count) { return (basis_row_count + 1) / 2; }

// a/b · c if this is in the range of float64, even if a/b is not.
double quotient_times(double a, double b, double c) {
  const double quotient = a / b;
  if (std::isnormal(quotient)) return quotient * c;
  int of_a = 0;
  int of_b = 0;
  int of_c = 0;
  const double significand = std::frexp(a, &of_a) / std::frexp(b, &of_b) * std::frexp(c, &of_c);
  return std::ldexp(significand, of_a - of_b + of_c);
}

}  // namespace

Path basis_path(const Skeleton& skeleton, Index rows, Index r, Index column) {
  if (r < rows) return {r, skeleton.k_of(column), column};
  return {skeleton.q_of(column), other_row(r - rows, skeleton.k_of(column)), column};
}

void basis_paths(const Skeleton& skeleton, Index rows, Index first, Index count, std::int32_t* out,
                 int threads) {
  const Index columns = skeleton.columns();
  parallel_for(count, threads, [&](Index n, int) {
    std::int32_t* to = out + n * columns * 3;
    for (Index c = 0; c < columns; ++c) {
      const Path path = basis_path(skeleton, rows, first + n, c);
      *to++ = static_cast<std::int32_t>(path.q);
      *to++ = static_cast<std::int32_t>(path.k);
      *to++ = static_cast<std::int32_t>(path.col);
    }
  });
}

PathExponents path_exponents(const Skeleton& skeleton, Index rows, const Path& path) {
  const Index q = skeleton.q_of(path.col);
  const Index k = skeleton.k_of(path.col);
  if (path.k == k) return {{path.q, -1, -1}, {1, 0, 0}};
  const Index through_k = rows + place_of(path.k, k);
  if (path.q == q) return {{through_k, -1, -1}, {1, 0, 0}};
  return {{path.q, through_k, q}, {1, 1, -1}};
}

template <class T>
void basis_values(MatrixView<const T> wq, MatrixView<const T> wk, const Skeleton& skeleton,
                  MatrixView<T> values, int threads) {
  parallel_for(values.rows, threads, [&](Index r, int) {
    for (Index c = 0; c < values.cols; ++c) {
      const Path path = basis_path(skeleton, wq.rows, r, c);
      values(r, c) = wq(path.q, c) * wk(path.k, c);
    }
  });
}

template <class T>
double path_value(MatrixView<const T> values, const Skeleton& skeleton, Path path) {
  const Index c = path.col;
  const auto through_q = static_cast<double>(values(path.q, c));
  if (path.k == skeleton.k_of(c)) return through_q;
  const Index rows = rows_of(values.rows);
  const auto through_k = static_cast<double>(values(rows + place_of(path.k, skeleton.k_of(c)), c));
  if (path.q == skeleton.q_of(c)) return through_k;
  return quotient_times(through_q, static_cast<double>(values(skeleton.q_of(c), c)), through_k);
}

template <class T>
void path_values(MatrixView<const T> values, const Skeleton& skeleton, Index q, Index first,
                 MatrixView<T> out, int threads) {
  parallel_for(out.rows, threads, [&](Index n, int) {
    for (Index c = 0; c < out.cols; ++c) {
      out(n, c) = static_cast<T>(path_value(values, skeleton, {q, first + n, c}));
    }
  });
}

template <class T>
void basis_weights(MatrixView<const T> values, const Skeleton& skeleton,
                   std::span<const T> wk_skeleton, MatrixView<T> wq, MatrixView<T> wk,
                   int threads) {
  const auto kept = [&](Index c) { return wk_skeleton[static_cast<std::size_t>(c)]; };
  parallel_for(wq.rows, threads, [&](Index i, int) {
    for (Index c = 0; c < wq.cols; ++c) wq(i, c) = values(i, c) / kept(c);
  });
  parallel_for(wk.rows, threads, [&](Index j, int) {
    for (Index c = 0; c < wk.cols; ++c) {
      const Index skipped = skeleton.k_of(c);
      if (j == skipped) {
        wk(j, c) = kept(c);
        continue;
      }
      const double through = static_cast<double>(values(skeleton.q_of(c), c)) / kept(c);
      wk(j, c) = static_cast<T>(values(wq.rows + place_of(j, skipped), c) / through);
    }
  });
}

template void basis_values(MatrixView<const float>, MatrixView<const float>, const Skeleton&,
                           MatrixView<float>, int);
template double path_value(MatrixView<const float>, const Skeleton&, Path);
template void path_values(MatrixView<const float>, const Skeleton&, Index, Index, MatrixView<float>,
                          int);
template void basis_weights(MatrixView<const float>, const Skeleton&, std::span<const float>,
                            MatrixView<float>, MatrixView<float>, int);
template void basis_values(MatrixView<const double>, MatrixView<const double>, const Skeleton&,
                           MatrixView<double>, int);
template double path_value(MatrixView<const double>, const Skeleton&, Path);
template void path_values(MatrixView<const double>, const Skeleton&, Index, Index,
                          MatrixView<double>, int);
template void basis_weights(MatrixView<const double>, const Skeleton&, std::span<const double>,
                            MatrixView<double>, MatrixView<double>, int);

}  // namespace attn
