#pragma once

#include <functional>
#include <span>

#include "basis_paths/path_task.hpp"

namespace attn::tools {

/// Memory for one path while it is read.
constexpr auto listed_path_bytes = static_cast<std::int64_t>(sizeof(Path) + 3 * sizeof(Index));

/// The number of paths in one row of a list: 1 for `path` (…, n, 3), d2 for `basis_path` (…, 2 d1 −
/// 1, d2, 3). An operand's `rows` are the rows of one head.
Index paths_in_row(const Operand& list);

/// Calls `body` with the paths of a head in order, `rows` rows at a time; `first` is the index of
/// the first row of each call. Throws Error(input) naming an index that is out of range.
void for_each_block(const PathTask& task, const Operand& list, Index problem, Index rows,
                    const std::function<void(Index first, std::span<const Path> paths)>& body);

}  // namespace attn::tools
