// The verb check of basis-paths, and the report of the structure.

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "basis_paths/basis_found.hpp"
#include "basis_paths/path_list.hpp"
#include "basis_paths/path_verbs.hpp"
#include "cli/words.hpp"
#include "common/frame/bundles.hpp"
#include "parallel/stop_flag.hpp"
#include "paths/structure.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

void add_identified(const Skeleton& skeleton, Index rows, PathForest& forest) {
  for (Index r = 0; r < basis_rows(rows); ++r) {
    stop_if_asked();
    for (Index c = 0; c < skeleton.columns(); ++c) {
      forest.add(basis_path(skeleton, rows, r, c));
    }
  }
}

// The list whose paths are judged; null for the paths of ABPI.
const Operand* judged_list(const PathTask& task) {
  const Operand* const asked = task.operand("path");
  return asked != nullptr ? asked : task.operand("basis_path");
}

BasisFound find_basis(const PathReader& reader, Index problem, Index most) {
  const PathInput& input = reader.task.input;
  const Operand* const list = judged_list(reader.task);
  // Before the forest: panels may take all of --memory.
  Skeleton skeleton;
  if (list == nullptr) skeleton = reader.head_skeleton(problem);
  BasisFound found;
  found.expected = input.columns * basis_rows(input.rows);
  PathForest forest(input.rows, input.columns);
  if (list == nullptr) {
    add_identified(skeleton, input.rows, forest);
    found.paths = found.expected;
  } else {
    for (Index first = 0; first < list->rows; first += most) {
      const Index rows = std::min(most, list->rows - first);
      for (const Path& path : read_paths(reader.task, *list, problem, first, rows)) {
        forest.add(path);
      }
    }
    found.paths = list->rows * paths_in_row(*list);
  }
  found.rank = forest.rank();
  return found;
}

std::string forest_text(Index rows, Index columns) {
  return fmt::format("the forest of {} weights", 2 * rows * columns);
}

// The number of rows of the list in memory at a time, besides the forest of one head.
Index list_rows(const cli::Arguments& arguments, const PathTask& task) {
  const PathInput& input = task.input;
  const std::string what = forest_text(input.rows, input.columns);
  const std::int64_t forest = PathForest::bytes(input.rows, input.columns);
  const Operand* const list = judged_list(task);
  if (list == nullptr) {
    require_memory(what, forest + input.columns * skeleton_column_bytes, arguments.memory);
    return 0;
  }
  require_readable(list->dataset, arguments.memory);
  return plan_blocks(what, forest, paths_in_row(*list) * listed_path_bytes, list->rows,
                     arguments.memory)
      .rows;
}

}  // namespace

void report_path_shape(const PathTask& task, cli::Report& report) {
  Json& result = report.result();
  result["shape"] = join(task.input.leading, {task.input.rows, task.input.columns});
  if (task.has_skeleton()) result["skeleton"] = rule_name(task.rule);
}

bool report_structure(const cli::Arguments& arguments, Index rows, Index columns,
                      std::optional<Index> length, cli::Report& report) {
  require_memory(forest_text(rows, 1), PathForest::bytes(rows, 1), arguments.memory);
  const Index rank = structure_rank(rows, columns);
  const Index expected = columns * basis_rows(rows);
  const std::optional<Index> paths = path_count(rows, columns);
  Json& result = report.result();
  result["weights"] = 2 * rows * columns;
  result["rank"] = rank;
  result["expected_rank"] = expected;
  result["paths"] = json_or_null(paths);
  result["path_instances"] = length ? json_or_null(path_instances(*length, rows, columns)) : Json();
  report.print(
      fmt::format("weights of {} x {}   2 d1 d2        {}\n", rows, columns, 2 * rows * columns) +
      fmt::format("paths               d1^2 d2        {}\n", count_text(paths)));
  if (length) {
    report.print(fmt::format("their instances     s^2 d1^2 d2    {}   (s = {})\n",
                             count_text(path_instances(*length, rows, columns)), *length));
  }
  report.print(fmt::format("rank                d2 (2 d1 - 1)  {} {} {}\n", expected,
                           rank == expected ? "=" : "!=", rank));
  return rank == expected;
}

bool check_paths(const cli::Arguments& arguments, const PathTask& task, Checkpoint* checkpoint,
                 cli::Report& report) {
  const PathInput& input = task.input;
  const Index most = list_rows(arguments, task);
  const PathReader reader(arguments, task);
  report_path_shape(task, report);
  const bool holds = report_structure(arguments, input.rows, input.columns, task.length, report);
  BasisFound all;
  Json heads = Json::array();
  for (Index problem = 0; problem < input.problems; ++problem) {
    const auto found =
        find_or_take<BasisFound>(checkpoint, [&] { return find_basis(reader, problem, most); });
    Json head = {{"index", unravel(problem, input.leading)}};
    head.update(found.json());
    heads.push_back(std::move(head));
    all.add(found);
  }
  const Operand* const list = judged_list(task);
  report.result()["judged"] = list == nullptr ? "skeleton" : list->dataset.name();
  report.result()["basis"] = all.json();
  report.result()["heads"] = std::move(heads);
  report.print_line(fmt::format("{} of {}: {}", list == nullptr ? "basis" : list->dataset.name(),
                                cli::counted(input.problems, "head"), all.text()));
  return holds && all.independent() && all.complete();
}

}  // namespace attn::tools
