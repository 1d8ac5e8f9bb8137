// The verbs identify and values of basis-paths.

#include <algorithm>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "basis_paths/path_list.hpp"
#include "basis_paths/path_verbs.hpp"
#include "cli/words.hpp"
#include "common/block_plan.hpp"

namespace attn::tools {
namespace {

void write_basis_paths(PathRun& run, Index problem, const Skeleton& skeleton) {
  const Index columns = run.task.input.columns;
  const Index rows = basis_rows(run.task.input.rows);
  const std::int64_t row_bytes = columns * 3 * static_cast<std::int64_t>(sizeof(std::int32_t));
  const Index most =
      plan_blocks("one row of basis paths", 0, row_bytes, rows, run.arguments.memory).rows;
  const Buffer<std::int32_t> block(most * columns * 3);
  io::OutputDataset dataset = run.outputs.dataset("basis_path");
  const Shape position = run.outputs.position(problem);
  for (Index first = 0; first < rows; first += most) {
    const Index count = std::min(most, rows - first);
    run.report.compute([&] {
      basis_paths(skeleton, run.task.input.rows, first, count, block.data(), run.arguments.threads);
    });
    dataset.write_stored(join(position, {first, 0, 0}),
                         join(Shape(position.size(), 1), {count, columns, 3}), block.data());
  }
}

void write_exponents(PathRun& run, Index problem, const Skeleton& skeleton) {
  const PathTask& task = run.task;
  constexpr std::int64_t row_bytes = listed_path_bytes + 6 * std::int64_t{sizeof(std::int32_t)};
  const Index most =
      plan_blocks("one path", 0, row_bytes, task.paths_asked(), run.arguments.memory).rows;
  const Shape position = run.outputs.position(problem);
  std::vector<std::int32_t> rows;
  std::vector<std::int32_t> exponents;
  const auto write = [&](Index first, std::span<const Path> paths) {
    rows.clear();
    exponents.clear();
    for (const Path& path : paths) {
      const PathExponents found = path_exponents(skeleton, task.input.rows, path);
      for (const Index row : found.row) rows.push_back(static_cast<std::int32_t>(row));
      exponents.insert(exponents.end(), found.exponent.begin(), found.exponent.end());
    }
    const Shape start = join(position, {first, 0});
    const Shape count = join(Shape(position.size(), 1), {static_cast<Index>(paths.size()), 3});
    run.outputs.dataset("path_basis").write_stored(start, count, rows.data());
    run.outputs.dataset("path_exponent").write_stored(start, count, exponents.data());
  };
  const Operand* const stored = task.operand("path");
  if (stored != nullptr) return for_each_block(task, *stored, problem, most, write);
  const std::span<const Path> listed = task.listed;
  for (Index first = 0; first < task.paths_asked(); first += most) {
    const Index count = std::min(most, task.paths_asked() - first);
    write(first, listed.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)));
  }
}

template <class T>
void find_values(PathRun& run, Index problem) {
  const Index rows = run.task.input.rows;
  run.for_each_panel(problem, [&](const PathPanel& panel) {
    const PanelWeights<T> weights(run, panel);
    Skeleton skeleton;
    Buffer<T> values(basis_rows(rows) * panel.count);
    Buffer<T> kept(panel.count);
    run.report.compute([&] {
      skeleton = run.skeleton<T>(panel, weights.wq, weights.wk);
      run.require_skeleton<T>(panel, skeleton, weights.wq, weights.wk);
      basis_values<T>(weights.wq, weights.wk, skeleton,
                      {values.data(), basis_rows(rows), panel.count}, run.arguments.threads);
      for (Index c = 0; c < panel.count; ++c) kept[c] = weights.wk(skeleton.k_of(c), c);
    });
    require_normal("basis_value", run.place("basis_value", panel), values, [&](Index n) {
      const Path path = basis_path(skeleton, rows, n / panel.count, n % panel.count);
      return weights.wq(path.q, path.col) == 0 || weights.wk(path.k, path.col) == 0;
    });
    run.write_skeleton(panel, skeleton);
    run.write("basis_value", panel, values.data());
    run.write("wk_skeleton", panel, kept.data());
  });
}

void require_int32(const PathTask& task) {
  const Index most = std::max(task.input.rows, task.input.columns);
  if (most <= std::numeric_limits<std::int32_t>::max()) return;
  throw Error(Failure::input, fmt::format("{} has an axis of {}, beyond indices of int32",
                                          task.datasets().front().address(), most));
}

}  // namespace

std::string identify_paths(PathRun& run) {
  require_int32(run.task);
  run.create("skeleton_q", DType::i32);
  run.create("skeleton_k", DType::i32);
  run.create("basis_path", DType::i32);
  const bool with_exponents = run.task.makes_exponents();
  if (with_exponents) {
    for (const char* name : {"path_basis", "path_exponent"}) {
      run.outputs.create(name, DType::i32, {run.task.paths_asked(), 3}, {"path", "factor"});
    }
    run.report.result()["paths"] = run.task.paths_asked();
  }
  run.for_each_head([&](Index problem) {
    const Skeleton skeleton = run.head_skeleton(problem);
    run.write_skeleton({problem, 0, run.task.input.columns}, skeleton);
    write_basis_paths(run, problem, skeleton);
    if (with_exponents) write_exponents(run, problem, skeleton);
  });
  const Index paths = run.task.input.columns * basis_rows(run.task.input.rows);
  run.report.result()["basis_paths"] = paths;
  return fmt::format("{} a head, skeleton {}", cli::counted(paths, "basis path"),
                     rule_name(run.task.rule));
}

std::string find_path_values(PathRun& run) {
  require_int32(run.task);
  run.create("skeleton_q", DType::i32);
  run.create("skeleton_k", DType::i32);
  run.create("basis_value", run.type());
  run.create("wk_skeleton", run.type());
  run.for_each_head([&](Index problem) {
    run.task.f64 ? find_values<double>(run, problem) : find_values<float>(run, problem);
  });
  const Index paths = run.task.input.columns * basis_rows(run.task.input.rows);
  run.report.result()["basis_paths"] = paths;
  return fmt::format("values of {} a head, skeleton {}", cli::counted(paths, "basis path"),
                     rule_name(run.task.rule));
}

}  // namespace attn::tools
