#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "head/attention_sources.hpp"
#include "head/head.hpp"

namespace attn {

/// An operand of which the gradient is known, and where a head's part of that gradient goes.
template <class T>
struct GradientOperand {
  std::string name;                ///< of the operand: "q", "wk", "rel_bias"
  std::optional<Operand> operand;  ///< absent: one number for all problems

  /// Puts `block`, of the shape of the operand's blocks, among the targets of a head, cut to the
  /// own queries and keys along the axes that have them.
  std::function<void(HeadGradientTargets<T>& targets, const MatrixView<T>& block,
                     const TileRange& own)>
      place;
};

/// All operands that have a gradient under a scheme. `hybrid` is the operand of u; without it, hnas
/// has one u for all problems. The gradient of x includes the part of y if y is x.
template <class T>
std::vector<GradientOperand<T>> gradient_operands(const AttentionSources& sources, Scheme scheme,
                                                  const std::optional<Operand>& hybrid);

}  // namespace attn
