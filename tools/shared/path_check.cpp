// Of basis-paths: check, and what all verbs report.

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "paths/structure.hpp"
#include "shared/bundles.hpp"
#include "shared/path_verbs.hpp"
#include "tensor/error.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t block_bytes = std::int64_t{4} << 20;

struct BasisFound {
  Index paths = 0;
  Index rank = 0;
  Index expected = 0;

  bool independent() const { return rank == paths; }
  bool complete() const { return rank == expected; }

  void add(const BasisFound& more) {
    paths += more.paths;
    rank += more.rank;
    expected += more.expected;
  }

  Json json() const {
    return {
        {"paths", paths}, {"rank", rank}, {"independent", independent()}, {"complete", complete()}};
  }
};

// Rows of basis_path, as the file has them.
void add_stored(const PathTask& task, Index problem, std::int64_t memory, PathForest& forest) {
  const Operand& operand = *task.operand("basis_path");
  const Index columns = task.input.columns;
  const std::int64_t row_bytes = columns * 3 * static_cast<std::int64_t>(sizeof(std::int64_t));
  const Index most = std::clamp<Index>(std::min(memory, block_bytes) / row_bytes, 1, operand.rows);
  const Buffer<std::int64_t> block(most * columns * 3);
  const Shape position = unravel(operand.block(problem), operand.leading);
  const Index ends[] = {task.input.rows, task.input.rows, columns};
  for (Index first = 0; first < operand.rows; first += most) {
    const Index count = std::min(most, operand.rows - first);
    const Shape start = join(position, {first, 0, 0});
    const Shape extent = join(Shape(position.size(), 1), {count, columns, 3});
    operand.dataset.read(start, extent, block.data());
    for (Index n = 0; n < count * columns * 3; ++n) {
      if (block[n] < 0 || block[n] >= ends[n % 3]) {
        throw Error(Failure::input, fmt::format("{} has {} at {}, expected an index in [0, {})",
                                                operand.dataset.address(), block[n],
                                                element_text(start, extent, n), ends[n % 3]));
      }
      if (n % 3 == 2) forest.add({block[n - 2], block[n - 1], block[n]});
    }
  }
}

void add_identified(const Skeleton& skeleton, Index rows, PathForest& forest) {
  for (Index r = 0; r < basis_rows(rows); ++r) {
    for (Index c = 0; c < skeleton.columns(); ++c) {
      forest.add(basis_path(skeleton, rows, r, c));
    }
  }
}

template <class Count>
Json json_or_null(const Count& count) {
  return count ? Json(*count) : Json();
}

std::string number_text(std::optional<Index> count) {
  return count ? fmt::format("{}", *count) : "beyond 64 bits";
}

std::string yes_or_no(bool holds) { return holds ? "yes" : "NO"; }

BasisFound find_basis(const PathReader& reader, Index problem) {
  const PathInput& input = reader.task.input;
  PathForest forest(input.rows, input.columns);
  if (reader.task.operand("basis_path") != nullptr) {
    add_stored(reader.task, problem, reader.arguments.memory, forest);
  } else {
    add_identified(reader.head_skeleton(problem), input.rows, forest);
  }
  const Index expected = input.columns * basis_rows(input.rows);
  return {expected, forest.rank(), expected};
}

void require_forest(const cli::Arguments& arguments, Index rows, Index columns) {
  const std::int64_t bytes = PathForest::bytes(rows, columns);
  if (bytes <= arguments.memory) return;
  throw Error(Failure::memory,
              fmt::format("the forest of {} weights needs {} of working memory, --memory allows {}",
                          2 * rows * columns, bytes_text(static_cast<double>(bytes)),
                          bytes_text(static_cast<double>(arguments.memory))),
              fmt::format("--memory {}M", (bytes >> 20) + 1));
}

}  // namespace

void report_path_shape(const PathTask& task, cli::Report& report) {
  Json& result = report.result();
  result["shape"] = join(task.input.leading, {task.input.rows, task.input.columns});
  if (task.has_skeleton()) result["skeleton"] = rule_name(task.rule);
}

bool report_structure(const cli::Arguments& arguments, Index rows, Index columns,
                      std::optional<Index> length, cli::Report& report) {
  require_forest(arguments, rows, 1);
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
      fmt::format("paths               d1^2 d2        {}\n", number_text(paths)));
  if (length) {
    report.print(fmt::format("their instances     s^2 d1^2 d2    {}   (s = {})\n",
                             number_text(path_instances(*length, rows, columns)), *length));
  }
  report.print(fmt::format("rank                d2 (2 d1 - 1)  {} {} {}\n", expected,
                           rank == expected ? "=" : "!=", rank));
  return rank == expected;
}

bool check_paths(const cli::Arguments& arguments, const PathTask& task, cli::Report& report) {
  const PathInput& input = task.input;
  require_forest(arguments, input.rows, input.columns);
  const PathReader reader(arguments, task);
  report_path_shape(task, report);
  const bool holds = report_structure(arguments, input.rows, input.columns, task.length, report);
  BasisFound all;
  Json heads = Json::array();
  for (Index problem = 0; problem < input.problems; ++problem) {
    const BasisFound found = find_basis(reader, problem);
    Json head = {{"index", unravel(problem, input.leading)}};
    head.update(found.json());
    heads.push_back(std::move(head));
    all.add(found);
  }
  report.result()["basis"] = all.json();
  report.result()["heads"] = std::move(heads);
  report.print(
      fmt::format("basis of {}: {} paths of rank {}, independent: {}, complete: {}\n",
                  input.problems == 1 ? "one head" : fmt::format("{} heads", input.problems),
                  all.paths, all.rank, yes_or_no(all.independent()), yes_or_no(all.complete())));
  return holds && all.independent() && all.complete();
}

}  // namespace attn::tools
