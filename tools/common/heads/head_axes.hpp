#pragma once

#include <string>
#include <vector>

#include "tensor/shape.hpp"

namespace attn::tools {

/// The leading axes of the heads of a report. --heads may have chosen some along the last axis.
struct HeadAxes {
  Shape leading;              ///< of the heads in the report
  std::vector<Index> chosen;  ///< the places of these along the last axis of the input; empty: all
  Index all = 0;              ///< the length of that axis, if some are chosen

  /// The place along the last axis of the input of the n-th head along the last axis of `leading`.
  Index number(Index n) const { return chosen.empty() ? n : chosen[static_cast<std::size_t>(n)]; }

  /// The place of a head of the report among all heads of the input.
  Index problem(Index head) const;

  /// Its index in all leading axes of the input.
  Shape index(Index head) const;

  /// The index as text: "3", "0,3".
  std::string label(Index head) const;
};

}  // namespace attn::tools
