// The verb reconstruct of basis-paths.

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "basis_paths/path_list.hpp"
#include "basis_paths/path_verbs.hpp"
#include "cli/words.hpp"
#include "common/frame/bundles.hpp"

namespace attn::tools {
namespace {

// Refuses a zero by which everything else is divided.
template <class T>
void require_divisors(const PathRun& run, const PathPanel& panel, const Skeleton& skeleton,
                      MatrixView<const T> values, const T* kept) {
  for (Index c = 0; c < panel.count; ++c) {
    const bool no_path = values(skeleton.q_of(c), c) == 0;
    if (!no_path && (kept == nullptr || kept[c] != 0)) continue;
    Shape at = unravel(panel.problem, run.task.input.leading);
    if (no_path) at.push_back(skeleton.q_of(c));
    at.push_back(panel.first + c);
    throw Error(
        Failure::numerical,
        fmt::format("{} has 0 at [{}], the skeleton's {} of column {}",
                    run.task.operand(no_path ? "basis_value" : "wk_skeleton")->dataset.address(),
                    fmt::join(at, ", "), no_path ? "path" : "weight", at.back()));
  }
}

template <class T>
void find_weights(PathRun& run, Index problem) {
  const Index rows = run.task.input.rows;
  run.in_panels(problem, [&](const PathPanel& panel, PathPart& part) {
    const Buffer<T> numbers = run.read<T>("basis_value", panel);
    const Buffer<T> kept = run.read<T>("wk_skeleton", panel);
    const MatrixView<const T> values(numbers.data(), basis_rows(rows), panel.count);
    const Skeleton skeleton = run.skeleton<T>(panel, {}, {});
    require_divisors(run, panel, skeleton, values, kept.data());
    Buffer<T> wq(rows * panel.count);
    Buffer<T> wk(rows * panel.count);
    run.report.compute([&] {
      basis_weights<T>(values, skeleton, {kept.data(), static_cast<std::size_t>(panel.count)},
                       {wq.data(), rows, panel.count}, {wk.data(), rows, panel.count},
                       run.arguments.threads);
    });
    require_normal("wq", run.place("wq", panel), wq,
                   [&](Index n) { return std::abs(wq[n]) == std::abs(numbers[n]); });
    require_normal("wk", run.place("wk", panel), wk, [&](Index n) {
      const Index c = n % panel.count;
      const Index place = n / panel.count - skeleton.k_of(c);
      if (place == 0) return true;
      const Index row = rows + n / panel.count - (place > 0 ? 1 : 0);
      return std::abs(wk[n]) == std::abs(values(row, c));
    });
    run.put(part, "wq", panel, std::move(wq));
    run.put(part, "wk", panel, std::move(wk));
  });
}

// The whole basis of a head, since a path may use any part of it.
template <class T>
struct HeadBasis {
  Buffer<T> numbers;
  MatrixView<const T> values;
  Skeleton skeleton;

  HeadBasis(const PathRun& run, Index problem) {
    const PathPanel all{problem, 0, run.task.input.columns};
    numbers = run.read<T>("basis_value", all);
    values = {numbers.data(), basis_rows(run.task.input.rows), all.count};
    skeleton = run.skeleton<T>(all, {}, {});
    require_divisors<T>(run, all, skeleton, values, nullptr);
  }

  double value(const Path& path) const { return path_value<T>(values, skeleton, path); }

  // Whether the value is a basis value, or a product with a basis value of 0: such a value is exact
  // even if it is tiny.
  bool is_exact(const Path& path) const {
    const Index q = skeleton.q_of(path.col);
    const Index k = skeleton.k_of(path.col);
    return path.q == q || path.k == k || value({path.q, k, path.col}) == 0 ||
           value({q, path.k, path.col}) == 0;
  }
};

// Adds the values of paths of a head, at `start` along the own axes of path_value. Throws
// Error(numerical) if T can hold a value only as infinity or without its full significand;
// `path_of(n)` is the path of value n.
template <class T, class PathOf>
void put_values(PathRun& run, const HeadBasis<T>& basis, Index problem, const Shape& start,
                const Shape& count, Buffer<T> values, const PathOf& path_of, PathPart& part) {
  const Index size = element_count(count);
  const auto block_at = [&](const Shape& position) {
    return PathBlock{join(position, start), join(Shape(position.size(), 1), count)};
  };
  for (Index n = 0; n < size; ++n) {
    const bool below = std::abs(values[n]) < std::numeric_limits<T>::min();
    if (below ? basis.is_exact(path_of(n)) : std::isfinite(values[n])) continue;
    // The place in the whole result, also in a shard.
    refuse_number<T>("path_value", block_at(unravel(problem, run.task.input.leading)), n,
                     below ? "below" : "beyond");
  }
  part.add("path_value", block_at(run.outputs.position(problem)), std::move(values));
}

template <class T>
void find_all_paths(PathRun& run, Index problem, Index most) {
  OnFirstUse<HeadBasis<T>> basis_of_head([&] { return HeadBasis<T>(run, problem); });
  const Index rows = run.task.input.rows;
  const Index columns = run.task.input.columns;
  for (Index q = 0; q < rows; ++q) {
    run.in_parts(rows, most, [&](Index first, Index count, PathPart& part) {
      const HeadBasis<T>& basis = basis_of_head.get();
      Buffer<T> block(count * columns);
      run.report.compute([&] {
        path_values<T>(basis.values, basis.skeleton, q, first, {block.data(), count, columns},
                       run.arguments.threads);
      });
      const auto path_of = [&](Index n) { return Path{q, first + n / columns, n % columns}; };
      put_values(run, basis, problem, {q, first, 0}, {1, count, columns}, std::move(block), path_of,
                 part);
    });
  }
}

template <class T>
void find_listed_paths(PathRun& run, Index problem, Index most) {
  OnFirstUse<HeadBasis<T>> basis_of_head([&] { return HeadBasis<T>(run, problem); });
  run.in_parts(run.task.paths_asked(), most, [&](Index first, Index count, PathPart& part) {
    const HeadBasis<T>& basis = basis_of_head.get();
    const std::vector<Path> paths = asked_paths(run.task, problem, first, count);
    const auto path_of = [&](Index n) { return paths[static_cast<std::size_t>(n)]; };
    Buffer<T> block(count);
    run.report.compute([&] {
      for (Index n = 0; n < count; ++n) block[n] = static_cast<T>(basis.value(path_of(n)));
    });
    put_values(run, basis, problem, {first}, {count}, std::move(block), path_of, part);
  });
}

template <class T>
void reconstruct_head(PathRun& run, Index problem, Index most) {
  if (!run.task.makes_paths()) return find_weights<T>(run, problem);
  if (run.task.all_paths) return find_all_paths<T>(run, problem, most);
  find_listed_paths<T>(run, problem, most);
}

}  // namespace

BlockPlan plan_paths(const cli::Arguments& arguments, const PathTask& task) {
  for (const ArraySource& dataset : task.datasets()) {
    require_readable(dataset, arguments.memory);
  }
  const PathInput& input = task.input;
  const auto size = static_cast<std::int64_t>(task.f64 ? sizeof(double) : sizeof(float));
  const std::int64_t basis =
      input.columns * (basis_rows(input.rows) * size + skeleton_column_bytes);
  if (task.all_paths) {
    return plan_blocks("the basis of one head", basis, input.columns * size, input.rows,
                       arguments.memory);
  }
  return plan_blocks("the basis of one head", basis, listed_path_bytes + size, task.paths_asked(),
                     arguments.memory);
}

std::string reconstruct_from_paths(PathRun& run) {
  const PathTask& task = run.task;
  std::string done = "weights from basis paths";
  Index most = 0;
  if (!task.makes_paths()) {
    run.create("wq", run.type());
    run.create("wk", run.type());
  } else {
    most = plan_paths(run.arguments, task).rows;
    const Index rows = task.input.rows;
    if (task.all_paths) {
      run.outputs.create("path_value", run.type(), {rows, rows, task.input.columns},
                         {"row of wq", "row of wk", "column"});
    } else {
      run.outputs.create("path_value", run.type(), {task.paths_asked()}, {"path"});
    }
    run.report.result()["paths"] = task.paths_asked();
    done = fmt::format("values of {}{} a head", task.all_paths ? "all " : "",
                       cli::counted(task.paths_asked(), "path"));
  }
  run.for_each_problem([&](Index problem) {
    task.f64 ? reconstruct_head<double>(run, problem, most)
             : reconstruct_head<float>(run, problem, most);
  });
  return done;
}

}  // namespace attn::tools
