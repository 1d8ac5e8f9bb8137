#pragma once

#include "kernel/packed.hpp"
#include "tensor/view.hpp"

/// Products of bfloat16 numbers, which are exact in float32. Dispatched at run time to the best
/// instruction set of the CPU; the bits are the same for all.
namespace attn::kernel {

/// Smaller numbers count as 0, so that no product leaves the range of normal float32 numbers. This
/// changes a dot product of length d by at most d · 2⁻⁶⁰ times the largest number.
constexpr float least_bf16 = 0x1p-60F;

/// The index of the first of n numbers that is not a bfloat16 number (lower 16 bits 0); n if all
/// are.
Index first_not_bf16(const float* x, Index n);

/// The floats of a row of n bfloat16 numbers in pairs.
constexpr Index bf16_pairs(Index n) { return (n + 1) / 2; }

/// Writes n finite bfloat16 numbers in pairs: the bits of the first one are the lower half of a
/// float, the bits of the second one are the upper half, which is 0 for a last number without a
/// partner.
void pair_bf16(const float* x, Index n, float* pairs);

/// multiply_packed for a (m, p) and b (p, n) of pairs. The sum of element (i, j) takes the pairs in
/// order: it adds the product of the upper halves, then the product of the lower halves. Each
/// addition rounds to float32; a result below 2⁻¹²⁶ in magnitude becomes 0.
void multiply_bf16(float alpha, MatrixView<const float> a, const Packed<float>& b, Index col0,
                   MatrixView<float> out);

/// multiply_exp_packed for pairs.
void multiply_exp_bf16(float alpha, MatrixView<const float> a, const Packed<float>& b, Index col0,
                       MatrixView<float> out, double* row_sum, double* col_sum,
                       double* row_product = nullptr);

}  // namespace attn::kernel
