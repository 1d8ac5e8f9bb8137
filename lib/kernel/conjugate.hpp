#pragma once

#include "tensor/view.hpp"

/// The vectors of an iterative solver: inner products and what goes with them in one reading.
/// Dispatched at run time as tile.hpp is. Sums are fused, by lane, in T.
namespace attn::kernel {

/// Σ_j x_j y_j.
double dot(const float* x, const float* y, Index n);
double dot(const double* x, const double* y, Index n);

/// a_j ← p_j (a_j − ā) with ā = Σ_j p_j a_j, for p_j >= 0 that sum to 1: the covariance of p times
/// a, (diag p − p pᵀ) a. Gives Σ_j p_j (a_j − ā)² >= 0, which is aᵀ times that.
double multiply_covariance(const float* p, float* a, Index n);
double multiply_covariance(const double* p, double* a, Index n);

/// x_j += step · v_j.
void axpy(float* x, const float* v, Index n, float step);
void axpy(double* x, const double* v, Index n, double step);

/// v_j ← x_j + factor · v_j.
void xpby(float* v, const float* x, Index n, float factor);
void xpby(double* v, const double* x, Index n, double factor);

/// max_j x_j − min_j x_j over the j with closed_j < +inf (null: over all); 0 where there are none.
double spread_of_open(const double* x, const double* closed, Index n);

}  // namespace attn::kernel
