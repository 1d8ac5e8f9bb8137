#pragma once

#include <vector>

#include "basis_paths/path_task.hpp"

namespace attn::tools {

/// Memory for one path while it is read.
constexpr auto listed_path_bytes = static_cast<std::int64_t>(sizeof(Path) + 3 * sizeof(Index));

/// The number of paths in one row of a list: 1 for `path` (…, n, 3), d2 for `basis_path` (…, 2 d1 −
/// 1, d2, 3). An operand's `rows` are the rows of one head.
Index paths_in_row(const Operand& list);

/// The paths of rows [first, first + rows) of a head's list, in order. Throws Error(input) naming
/// an index that is out of range.
std::vector<Path> read_paths(const PathTask& task, const Operand& list, Index problem, Index first,
                             Index rows);

/// The requested paths, from --paths or from the dataset path.
std::vector<Path> asked_paths(const PathTask& task, Index problem, Index first, Index count);

}  // namespace attn::tools
