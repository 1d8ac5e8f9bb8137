#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/shape.hpp"

namespace attn::io {

/// One item of NumPy's basic slicing: an integer (drops the axis), `start:stop:step` with
/// step > 0, or an ellipsis (as many full axes as are left). Negative positions count from the end.
struct SliceItem {
  enum class Kind { integer, range, ellipsis };
  Kind kind = Kind::range;
  std::optional<Index> start;  ///< the position itself for an integer
  std::optional<Index> stop;
  Index step = 1;
};

/// Where a dataset or a group lies: `FILE[:/path][sel]` (DESIGN.md §2).
struct Address {
  std::string text;                  ///< as the user wrote it, for messages
  std::string file;                  ///< "-" is standard input
  std::string path;                  ///< inside the file, "/" unless given
  std::vector<SliceItem> selection;  ///< empty: everything
};

/// Splits at the last ':' whose left side exists and is no folder (or is "-"), so that file names
/// may hold colons and brackets; text that exists as a whole is a file. FILE[sel] is FILE:/[sel].
/// Text that names no existing file becomes the file itself, to be refused when it is opened.
/// Numbers beyond 64 bits count as the largest of these. Throws Error(usage) on a malformed
/// selection: a step that is not positive, a second ellipsis, an empty item.
Address parse_address(std::string_view text);

/// A selection resolved against a shape: element k of result axis a lies at
/// start[source_axis] + k*step[source_axis]; integer-indexed axes have count 1 and are dropped
/// from `shape`.
struct Hyperslab {
  Shape start;                           ///< per source axis
  Shape step;                            ///< per source axis
  Shape count;                           ///< per source axis
  Shape shape;                           ///< of the result: `count` without the dropped axes
  std::vector<std::size_t> source_axis;  ///< per result axis
};

/// NumPy's rules: an integer out of range is an error, a range is clipped. Throws Error(input)
/// naming `what`, the item and the axis' length; also for more items than axes.
Hyperslab resolve(const std::vector<SliceItem>& selection, const Shape& shape,
                  const std::string& what);

}  // namespace attn::io
