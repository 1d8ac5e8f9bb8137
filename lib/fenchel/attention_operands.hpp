#pragma once

#include "score/scores.hpp"
#include "tensor/owned_matrix.hpp"

namespace attn {

// The operands of a dual whose first order is attention with given scores (MATHEMATICS.md §4, FD
// 15-20).

/// u_i ∝ preference · exp(bias), and 0 for forbidden pairs: the exponentials of the scores with
/// these terms but no energy. (1, keys) if all queries have the same preferences, else (queries,
/// keys). The largest number of a row is 1, unless all are 0.
OwnedMatrix<double> preferences_of(Scores<double>::Terms terms, Index queries, Index keys);

/// factor · q wkᵀ (Q, D): the evidence whose scores with templates x (n, D) are those of q with the
/// keys x wk, times `factor` (FD 20).
OwnedMatrix<double> evidence_of(MatrixView<const double> q, MatrixView<const double> wk,
                                double factor);

}  // namespace attn
