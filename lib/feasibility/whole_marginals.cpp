#include "feasibility/whole_marginals.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "tensor/shape.hpp"

namespace attn {
namespace {

using Amounts = PooledVector<std::int64_t>;

// The number of positive entries, if these are all equal.
std::optional<Index> equal_count(std::span<const double> marginal) {
  double one = 0;
  Index count = 0;
  for (const double x : marginal) {
    if (x == 0) continue;
    if (count > 0 && x != one) return std::nullopt;
    one = x;
    ++count;
  }
  return count;
}

Amounts filled(std::span<const double> marginal, std::int64_t amount) {
  Amounts amounts(marginal.size());
  for (std::size_t i = 0; i < amounts.size(); ++i) amounts[i] = marginal[i] > 0 ? amount : 0;
  return amounts;
}

Amounts scaled(std::span<const double> marginal, int exponent) {
  Amounts amounts(marginal.size());
  for (std::size_t i = 0; i < amounts.size(); ++i) {
    // A positive marginal stays positive, however small.
    const std::int64_t least = marginal[i] > 0 ? 1 : 0;
    amounts[i] = std::max<std::int64_t>(least, std::llround(std::ldexp(marginal[i], exponent)));
  }
  return amounts;
}

}  // namespace

WholeMarginals in_whole_numbers(std::span<const double> a, std::span<const double> b, double most,
                                double rounding) {
  const auto rows = equal_count(a);
  const auto cols = equal_count(b);
  if (rows && cols) {
    const Index common = std::gcd(*rows, *cols);
    return {filled(a, *cols / common), filled(b, *rows / common), 0};
  }
  int exponent = 0;
  std::frexp(most, &exponent);
  const int shift = 61 - exponent;
  // Each number is rounded to a whole one.
  const auto lines = static_cast<double>(a.size() + b.size());
  return {scaled(a, shift), scaled(b, shift),
          static_cast<std::int64_t>(std::ceil(std::ldexp(rounding, shift) + lines))};
}

}  // namespace attn
