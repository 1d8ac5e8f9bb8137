#pragma once

#include <optional>
#include <vector>

#include "attnkit/basis_paths.hpp"
#include "tensor/view.hpp"

/// Basis paths (SI; MATHEMATICS.md §6). Weights W_Q and W_K of one head are (d1, d2). The scores
/// depend on column c only through the paths W_Q[i,c] W_K[j,c], which do not change when the column
/// is rescaled to W_Q[:,c] f and W_K[:,c] / f. Columns share no weight, so each column is treated
/// by itself: any range of columns is a problem of its own.
namespace attn {

/// The skeleton of SI Alg. 1 (ABPI): row t mod d1 of both, t = first, first + 1, … Requires rows >=
/// 1. SI counts t over the columns of all heads side by side, so `first` is h · d2 for head h; it
/// is 0 to count each head separately.
Skeleton cyclic_skeleton(Index rows, Index first, Index columns);

/// The entry of largest magnitude of each column, the first of equal entries. It keeps the
/// skeleton's path, by which a step's ratio divides, far from 0. The choice is the same after a
/// rescaling of columns by powers of two. Requires finite numbers and matrices of one shape with
/// rows.
template <class T>
Skeleton largest_skeleton(MatrixView<const T> wq, MatrixView<const T> wk);

/// Sets the skeleton's weights in both matrices to 1, as SI Alg. 2 does at the start. Leaves all
/// others unchanged.
template <class T>
void set_skeleton_to_one(MatrixView<T> wq, MatrixView<T> wk, const Skeleton& skeleton);

/// A place where a skeleton's weight is 0.
struct ZeroWeight {
  bool of_q;  ///< in W_Q, else in W_K
  Index row;
  Index col;
};

/// The first column whose skeleton goes through a 0 (the one in W_Q if both are 0).
template <class T>
std::optional<ZeroWeight> zero_in_skeleton(MatrixView<const T> wq, MatrixView<const T> wk,
                                           const Skeleton& skeleton);

}  // namespace attn
