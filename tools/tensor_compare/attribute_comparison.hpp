#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "io/input.hpp"
#include "tensor_compare/comparison.hpp"

namespace attn::tools {

/// Compares the attributes of two bundles: the attributes of the roots, of all groups and of the
/// common datasets; with `datasets`, only of these datasets. Leaves out `history` and the
/// attributes that HDF5 uses for axis labels and dimension scales. Numbers of any type are compared
/// within `tolerance`, strings byte by byte. An attribute that only one object has is a difference.
/// Throws Error(input) for other types.
std::vector<Compared> compare_attributes(const io::InputBundle& a, const io::InputBundle& b,
                                         const std::optional<std::set<std::string>>& datasets,
                                         const Tolerance& tolerance);

}  // namespace attn::tools
