#include "sinkhorn_iter/masses.hpp"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "attnkit/error.hpp"

namespace attn::tools {
namespace {

void read_integers(const Operand& operand, const BlockAxes& axes, std::vector<double>& values) {
  constexpr auto most = std::int64_t{1} << std::numeric_limits<double>::digits;
  std::vector<std::int64_t> read(values.size());
  operand.dataset.read(axes.start, axes.count, read.data());
  for (std::size_t n = 0; n < read.size(); ++n) {
    values[n] = static_cast<double>(read[n]);
    if (read[n] >= 0 && read[n] <= most) continue;
    throw Error(
        Failure::input,
        fmt::format("{} has {} at {}, expected integers from 0 to 2^53", operand.dataset.address(),
                    read[n], element_text(axes.start, axes.count, static_cast<Index>(n))));
  }
}

// `allowed(value)` is false for NaN.
template <class Allowed>
std::vector<double> read_numbers(const Operand& operand, const BlockAxes& axes, std::size_t count,
                                 const char* expected, const Allowed& allowed) {
  std::vector<double> values(count);
  operand.dataset.read(axes.start, axes.count, values.data());
  for (std::size_t n = 0; n < count; ++n) {
    if (allowed(values[n])) continue;
    refuse_element(operand.dataset, axes.start, axes.count, static_cast<Index>(n), values[n],
                   expected);
  }
  return values;
}

constexpr double largest = std::numeric_limits<double>::max();

}  // namespace

std::vector<double> read_masses(const Operand& operand, Index problem, const TileRange& part) {
  const auto count = static_cast<std::size_t>(part.rows * part.cols);
  const BlockAxes axes(operand, operand.block(problem), part.row0, part.rows, part.col0, part.cols);
  if (is_integral(operand.dataset.dtype())) {
    std::vector<double> values(count);
    read_integers(operand, axes, values);
    return values;
  }
  return read_numbers(operand, axes, count, "finite numbers >= 0",
                      [](double value) { return value >= 0 && value <= largest; });
}

std::vector<double> read_potentials(const Operand& operand, Index problem, Index first,
                                    Index count) {
  return read_numbers(operand, {operand, operand.block(problem), 0, 1, first, count},
                      static_cast<std::size_t>(count), "finite numbers or -inf",
                      [](double value) { return value <= largest; });
}

double rounding_of(const Operand& operand) {
  switch (operand.dataset.dtype()) {
    case DType::f32:
      return std::numeric_limits<float>::epsilon();
    case DType::f16:
      return std::ldexp(1.0, -10);
    default:
      return std::numeric_limits<double>::epsilon();
  }
}

}  // namespace attn::tools
