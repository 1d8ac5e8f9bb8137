#pragma once

#include <vector>

#include "head/operand.hpp"
#include "tensor/view.hpp"

namespace attn::tools {

/// Part of a problem's block of marginals or weights, row by row. Throws Error(input) naming
/// dataset and index of an element that is not a finite number >= 0, or of an integer beyond 2^53,
/// which float64 may not represent.
std::vector<double> read_masses(const Operand& operand, Index problem, const TileRange& part);

/// A problem's potentials to start from, of a part of its keys. Throws Error(input) naming dataset
/// and index of an element that is NaN or +inf.
std::vector<double> read_potentials(const Operand& operand, Index problem, Index first,
                                    Index count);

/// The machine epsilon of a dataset's type, or of float64 if the type is not floating-point.
double rounding_of(const Operand& operand);

}  // namespace attn::tools
