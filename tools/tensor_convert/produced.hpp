#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "io/arrays/array_output.hpp"
#include "io/input.hpp"
#include "io/output.hpp"

namespace attn::tools {

/// A dataset that is about to be written, and the source of its elements.
struct Produced {
  std::string name;
  DType type = DType::f32;
  Shape shape;
  std::vector<std::string> labels;  ///< of its axes, for formats that store them
  std::string address;              ///< its source, for messages
  /// Fills `out` with a block's elements of `type`, row-major.
  std::function<void(const Shape& start, const Shape& count, void* out)> read;
  std::vector<std::string> texts = {};  ///< all elements of a dataset of strings
};

/// `dataset` under its own name, as stored, or rounded() if a type is given.
Produced produced(const ArraySource& dataset, std::optional<DType> type);

/// A floating-point dataset with its elements rounded to nearest (ties to even) to another
/// floating-point type. Reading throws Error(numerical) if a finite element exceeds that type.
Produced rounded(const Produced& dataset, DType type);

/// Activations (…, L, heads·d) by head, (…, heads, L, d). Throws Error(input) for other shapes.
Produced split_heads(const Produced& dataset, Index heads);

/// Writes all elements, piece by piece, into a new dataset of a bundle, or into a file of arrays,
/// which must have been created for these datasets (in any order). --memory bounds the pieces.
void write(const cli::Arguments& arguments, const Produced& dataset, io::OutputBundle& output);
void write(const cli::Arguments& arguments, const std::vector<Produced>& datasets,
           io::ArrayOutput& output);

}  // namespace attn::tools
