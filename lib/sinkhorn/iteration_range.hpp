#pragma once

#include <span>

#include "tensor/shape.hpp"

/// Inside lib/sinkhorn: how far Sinkhorn's iterations may go from the reference of their kernel.
namespace attn {

/// The largest |log κ| and |log ρ|. In float32, products with exponentials of scores of at most 30
/// lie well inside the format. With a plan as kernel, entries flushed to 0 are then still below
/// 1e-29 of their row, and the others lose few digits to the rounding of their exponent. In
/// float64, products with exp(s), |s| ≤ 350, and their sums stay below e^680. With a plan as
/// kernel, entries flushed to 0 are below e^-48 = 1e-21 of their marginals, and exponents are
/// exactly as in the formula.
template <class T>
double most_from_reference(bool refers_to_zero) {
  if (sizeof(T) == sizeof(float)) return refers_to_zero ? 45 : 10;
  return 330;
}

/// Weights below the smallest number of the format are lost; sums this large are not affected.
template <class T>
constexpr double smallest_sum = sizeof(T) == sizeof(float) ? 1e-25 : 1e-100;

/// The logarithm of a line's marginal; an empty span is all zeros.
inline double log_marginal(std::span<const double> log, Index line) {
  return log.empty() ? 0 : log[static_cast<std::size_t>(line)];
}

}  // namespace attn
