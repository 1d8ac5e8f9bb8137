// The verbs identify and values of basis-paths.

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "basis_paths/path_list.hpp"
#include "basis_paths/path_verbs.hpp"
#include "cli/words.hpp"
#include "common/costs/block_plan.hpp"

namespace attn::tools {
namespace {

void make_basis_paths(PathRun& run, Index problem, OnFirstUse<Skeleton>& skeleton) {
  const Index columns = run.task.input.columns;
  const Index rows = basis_rows(run.task.input.rows);
  const std::int64_t row_bytes = columns * 3 * static_cast<std::int64_t>(sizeof(std::int32_t));
  const Index most =
      plan_blocks("one row of basis paths", 0, row_bytes, rows, run.arguments.memory).rows;
  const Shape position = run.outputs.position(problem);
  run.in_parts(rows, most, [&](Index first, Index count, PathPart& part) {
    Buffer<std::int32_t> block(count * columns * 3);
    const Skeleton& of_head = skeleton.get();
    run.report.compute([&] {
      basis_paths(of_head, run.task.input.rows, first, count, block.data(), run.arguments.threads);
    });
    part.add("basis_path",
             {join(position, {first, 0, 0}), join(Shape(position.size(), 1), {count, columns, 3})},
             std::move(block));
  });
}

void make_exponents(PathRun& run, Index problem, OnFirstUse<Skeleton>& skeleton) {
  const PathTask& task = run.task;
  constexpr std::int64_t row_bytes = listed_path_bytes + 6 * std::int64_t{sizeof(std::int32_t)};
  const Index most =
      plan_blocks("one path", 0, row_bytes, task.paths_asked(), run.arguments.memory).rows;
  const Shape position = run.outputs.position(problem);
  run.in_parts(task.paths_asked(), most, [&](Index first, Index count, PathPart& part) {
    const std::vector<Path> paths = asked_paths(task, problem, first, count);
    Buffer<std::int32_t> rows(count * 3);
    Buffer<std::int32_t> exponents(count * 3);
    const Skeleton& of_head = skeleton.get();
    for (Index n = 0; n < count; ++n) {
      const PathExponents found =
          path_exponents(of_head, task.input.rows, paths[static_cast<std::size_t>(n)]);
      for (std::size_t factor = 0; factor < 3; ++factor) {
        const Index at = n * 3 + static_cast<Index>(factor);
        rows[at] = static_cast<std::int32_t>(found.row[factor]);
        exponents[at] = found.exponent[factor];
      }
    }
    const PathBlock place = {join(position, {first, 0}),
                             join(Shape(position.size(), 1), {count, 3})};
    part.add("path_basis", place, std::move(rows));
    part.add("path_exponent", place, std::move(exponents));
  });
}

template <class T>
void find_values(PathRun& run, Index problem) {
  const Index rows = run.task.input.rows;
  run.in_panels(problem, [&](const PathPanel& panel, PathPart& part) {
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
    run.put_skeleton(part, panel, skeleton);
    run.put(part, "basis_value", panel, std::move(values));
    run.put(part, "wk_skeleton", panel, std::move(kept));
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
  run.for_each_problem([&](Index problem) {
    OnFirstUse<Skeleton> skeleton([&] { return run.head_skeleton(problem); });
    run.in_parts(1, 1, [&](Index, Index, PathPart& part) {
      run.put_skeleton(part, {problem, 0, run.task.input.columns}, skeleton.get());
    });
    make_basis_paths(run, problem, skeleton);
    if (with_exponents) make_exponents(run, problem, skeleton);
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
  run.for_each_problem([&](Index problem) {
    run.task.f64 ? find_values<double>(run, problem) : find_values<float>(run, problem);
  });
  const Index paths = run.task.input.columns * basis_rows(run.task.input.rows);
  run.report.result()["basis_paths"] = paths;
  return fmt::format("values of {} a head, skeleton {}", cli::counted(paths, "basis path"),
                     rule_name(run.task.rule));
}

}  // namespace attn::tools
