#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "io/input.hpp"
#include "tensor_compare/comparison.hpp"

namespace attn::tools {

/// The attributes of two bundles, compared: those of the roots, of all groups and of the datasets
/// that both have; with `datasets` those of these datasets alone. `history` is left out, and what
/// HDF5 writes to label axes and to attach dimension scales. Numbers are compared within
/// `tolerance`, whatever their types; texts byte by byte. An attribute that one object alone has is
/// a difference. Throws Error(input) for a type that is neither.
std::vector<Compared> compare_attributes(const io::InputBundle& a, const io::InputBundle& b,
                                         const std::optional<std::set<std::string>>& datasets,
                                         const Tolerance& tolerance);

}  // namespace attn::tools
