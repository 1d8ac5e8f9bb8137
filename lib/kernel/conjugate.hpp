#pragma once

#include "tensor/view.hpp"

/// Vector operations of an iterative solver, inner products fused with updates so that vectors are
/// read once. Dispatched at run time as in tile.hpp. Sums use fused multiply-adds, lane by lane, in
/// T.
namespace attn::kernel {

/// Σ_j x_j y_j.
double dot(const float* x, const float* y, Index n);
double dot(const double* x, const double* y, Index n);

/// a_j ← p_j (a_j − ā) with ā = Σ_j p_j a_j, for p_j >= 0 that sum to 1: the covariance of p times
/// a, (diag p − p pᵀ) a. Returns Σ_j p_j (a_j − ā)² >= 0, the product of the old aᵀ with the new a.
double multiply_covariance(const float* p, float* a, Index n);
double multiply_covariance(const double* p, double* a, Index n);

/// x_j += step · v_j.
void axpy(float* x, const float* v, Index n, float step);
void axpy(double* x, const double* v, Index n, double step);

/// v_j ← x_j + factor · v_j.
void xpby(float* v, const float* x, Index n, float factor);
void xpby(double* v, const double* x, Index n, double factor);

/// max_j x_j − min_j x_j over the j with closed_j < +inf (null: over all); 0 if there are none.
double spread_of_open(const double* x, const double* closed, Index n);

}  // namespace attn::kernel
