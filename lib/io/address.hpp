#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/shape.hpp"

namespace attn::io {

/// One item of NumPy's basic slicing: an integer (which drops the axis), `start:stop:step` with
/// step > 0, or an ellipsis (which stands for all remaining axes). Negative positions count from
/// the end.
struct SliceItem {
  enum class Kind { integer, range, ellipsis };
  Kind kind = Kind::range;
  std::optional<Index> start;  ///< the position itself for an integer
  std::optional<Index> stop;
  Index step = 1;
};

/// The location of a dataset or a group: `FILE[:/path][sel]` (tools/README.md).
struct Address {
  std::string text;                  ///< as the user wrote it, for messages
  std::string file;                  ///< "-" is standard input
  std::string path;                  ///< inside the file, "/" unless given
  std::vector<SliceItem> selection;  ///< empty: everything
};

/// Splits at the last ':' whose left side is "-" or an existing file that is not a folder, so file
/// names may contain colons and brackets. If the whole text is an existing file, it is not split.
/// FILE[sel] means FILE:/[sel]. If no part of the text names an existing file, the whole text
/// becomes the file, which is refused when it is opened. A folder stands for its
/// model.safetensors.index.json or, without one, its model.safetensors, if it has one of them.
/// Numbers beyond 64 bits saturate. Throws Error(usage) for a malformed selection: a step that is
/// not positive, a second ellipsis, an empty item.
Address parse_address(std::string_view text);

/// `path` with slashes in place of dots: "blocks/0/attn" for "blocks.0.attn".
std::string with_slashes(std::string path);

/// A selection resolved against a shape: element k of result axis a lies at start[source_axis] +
/// k*step[source_axis]. Axes indexed by an integer have count 1 and are dropped from `shape`.
struct Hyperslab {
  Shape start;                           ///< per source axis
  Shape step;                            ///< per source axis
  Shape count;                           ///< per source axis
  Shape shape;                           ///< of the result: `count` without the dropped axes
  std::vector<std::size_t> source_axis;  ///< per result axis
};

/// Follows NumPy's rules: an integer out of range is an error, a range is clipped. Throws
/// Error(input) naming `what`, the item and the length of the axis; also if there are more items
/// than axes.
Hyperslab resolve(const std::vector<SliceItem>& selection, const Shape& shape,
                  const std::string& what);

}  // namespace attn::io
