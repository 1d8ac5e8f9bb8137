#pragma once

#include <optional>
#include <vector>

#include "attnkit/basis_paths.hpp"
#include "tensor/view.hpp"

/// Basis paths (SI; SPEC.md §6). Weights W_Q and W_K of one head are (d1, d2); column c of the
/// scores' products sees them through the paths W_Q[i,c] W_K[j,c] alone, which a rescaling of the
/// column, W_Q[:,c] f and W_K[:,c] / f, leaves as they are. Columns share no weight, so all that is
/// done here is done to each column by itself: any range of columns is a problem of its own.
namespace attn {

/// As published (SI Alg. 1, ABPI): row t mod d1 of both, t = first, first + 1, ... Requires rows >=
/// 1.
Skeleton cyclic_skeleton(Index rows, Index first, Index columns);

/// The entry of largest magnitude of each column, of several the first: a skeleton's path far
/// from 0, on which a step's ratio depends. The same after a rescaling of columns by powers of two.
/// Requires finite numbers and matrices of one shape with rows.
template <class T>
Skeleton largest_skeleton(MatrixView<const T> wq, MatrixView<const T> wk);

/// Where a skeleton's weight is 0.
struct ZeroWeight {
  bool of_q;  ///< of W_Q, else of W_K
  Index row;
  Index col;
};

/// The first column whose skeleton goes through a 0 (in W_Q, where it does in both).
template <class T>
std::optional<ZeroWeight> zero_in_skeleton(MatrixView<const T> wq, MatrixView<const T> wk,
                                           const Skeleton& skeleton);

}  // namespace attn
