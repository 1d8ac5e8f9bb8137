#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "paths/skeleton.hpp"

namespace attn {

/// W_Q[q, col] W_K[k, col].
struct Path {
  Index q;
  Index k;
  Index col;
};

/// The number of basis paths of a column: 2 d1 − 1 (SI Theorem 2).
inline Index basis_rows(Index rows) { return 2 * rows - 1; }

/// The basis as a matrix (2 d1 − 1, d2) with the columns of the weights. Row r < d1 is the path
/// through W_Q's row r and the skeleton of W_K, so row skeleton.q is the skeleton's own product.
/// The later rows are the paths through the skeleton of W_Q and the other rows of W_K, in order. SI
/// Alg. 1 finds the same set column by column. `rows` is d1.
Path basis_path(const Skeleton& skeleton, Index rows, Index r, Index column);

/// The paths of rows [first, first + count) of the basis, as triples q, k, col: the index of a path
/// in a (d1, d1, d2) array of all paths. `out` has count · d2 · 3 numbers. Requires that d1 and d2
/// fit into int32.
void basis_paths(const Skeleton& skeleton, Index rows, Index first, Index count, std::int32_t* out,
                 int threads);

/// A path as a product of powers of basis paths of its column: the rows of the basis and their
/// exponents; −1 and 0 where there is none.
struct PathExponents {
  std::array<Index, 3> row = {-1, -1, -1};
  std::array<int, 3> exponent = {0, 0, 0};
};

/// The exponents of a path of weights with `rows` rows (SI Prop. 3, Theorem 1). A path in the basis
/// has the exponent 1 of itself. Any other path has 1 for the path through its row of W_Q, 1 for
/// the path through its row of W_K, and −1 for the skeleton's. The exponents are unique, as the
/// basis is independent.
PathExponents path_exponents(const Skeleton& skeleton, Index rows, const Path& path);

/// The values (2 d1 − 1, d2) of the basis paths, each rounded once.
template <class T>
void basis_values(MatrixView<const T> wq, MatrixView<const T> wk, const Skeleton& skeleton,
                  MatrixView<T> values, int threads);

/// The value of any path, computed only from the basis: p = p₁p₂/p₃ (SI Theorem 1), as p₁/p₃ · p₂,
/// or read from the basis if it has the path. In float64, within two roundings in addition to those
/// of the values (a third if the result is subnormal), for any p₁/p₃. Not finite where p₃, the
/// skeleton's path, is 0.
template <class T>
double path_value(MatrixView<const T> values, const Skeleton& skeleton, Path path);

/// out (count, d2): the paths through row q of W_Q and rows [first, first + count) of W_K.
template <class T>
void path_values(MatrixView<const T> values, const Skeleton& skeleton, Index q, Index first,
                 MatrixView<T> out, int threads);

/// The weights with these basis paths and with `wk_skeleton` (d2) as the weights of W_K in the
/// skeleton: W_Q[i] = p/W_K[S], W_K[j] = p/W_Q[S]. W_Q is within two roundings of the weights that
/// made the values, W_K within four. Not finite where a skeleton's path or weight is 0.
template <class T>
void basis_weights(MatrixView<const T> values, const Skeleton& skeleton,
                   std::span<const T> wk_skeleton, MatrixView<T> wq, MatrixView<T> wk, int threads);

}  // namespace attn
