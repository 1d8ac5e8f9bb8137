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

}  // namespace

std::vector<double> read_masses(const Operand& operand, Index problem, const TileRange& part) {
  std::vector<double> values(static_cast<std::size_t>(part.rows * part.cols));
  const BlockAxes axes(operand, operand.block(problem), part.row0, part.rows, part.col0, part.cols);
  if (is_integral(operand.dataset.dtype())) {
    read_integers(operand, axes, values);
    return values;
  }
  operand.dataset.read(axes.start, axes.count, values.data());
  for (std::size_t n = 0; n < values.size(); ++n) {
    // NaN fails the comparisons.
    if (values[n] >= 0 && values[n] <= std::numeric_limits<double>::max()) continue;
    refuse_element(operand.dataset, axes.start, axes.count, static_cast<Index>(n), values[n],
                   "finite numbers >= 0");
  }
  return values;
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
