// The verbs identify and values of basis-paths.

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
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
    run.compute([&] {
      basis_paths(skeleton, run.task.input.rows, first, count, block.data(), run.arguments.threads);
    });
    dataset.write_stored(join(position, {first, 0, 0}),
                         join(Shape(position.size(), 1), {count, columns, 3}), block.data());
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
    run.compute([&] {
      skeleton = run.skeleton<T>(panel, weights.wq, weights.wk);
      run.require_skeleton<T>(panel, skeleton, weights.wq, weights.wk);
      basis_values<T>(weights.wq, weights.wk, skeleton,
                      {values.data(), basis_rows(rows), panel.count}, run.arguments.threads);
      for (Index c = 0; c < panel.count; ++c) kept[c] = weights.wk(skeleton.k_of(c), c);
    });
    run.require_normal("basis_value", panel, values, [&](Index n) {
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
  run.for_each_head([&](Index problem) {
    const Skeleton skeleton = run.head_skeleton(problem);
    run.write_skeleton({problem, 0, run.task.input.columns}, skeleton);
    write_basis_paths(run, problem, skeleton);
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
