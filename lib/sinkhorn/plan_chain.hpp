#pragma once

#include "tensor/view.hpp"

namespace attn {

/// How much a matrix with entries >= 0 can enlarge a vector.
struct ChainGain {
  double spectral = 1;        ///< in the Euclidean norm: the largest singular value
  double largest_row = 1;     ///< in the maximum norm: the largest sum of a row
  double largest_column = 1;  ///< in the sum norm: the largest sum of a column
};

/// Writes the gains of P_1, P_2 P_1, ..., P_depth ... P_1 to gains (depth), for plans (depth, size,
/// size), size >= 1. Products are in float64. All three are exactly 1 if the plans are doubly
/// stochastic, which iterations on square problems with marginals of 1 approach.
template <class T>
void chain_gains(const T* plans, Index depth, Index size, ChainGain* gains);

}  // namespace attn
