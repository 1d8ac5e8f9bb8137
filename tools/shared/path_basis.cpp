// Of basis-paths: identify, values, reconstruct.

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "shared/bundles.hpp"
#include "shared/path_verbs.hpp"
#include "tensor/error.hpp"

namespace attn::tools {
namespace {

// Of indices or paths that are on their way to a file.
constexpr std::int64_t block_bytes = std::int64_t{16} << 20;

// Rows of a matrix that are made at a time, `row_bytes` each.
Index block_rows(const PathRun& run, Index rows, std::int64_t row_bytes) {
  const std::int64_t limit = std::min(run.arguments.memory, block_bytes);
  return std::clamp<Index>(limit / std::max<std::int64_t>(1, row_bytes), 1,
                           std::max<Index>(1, rows));
}

void write_basis_paths(PathRun& run, Index problem, const Skeleton& skeleton) {
  const Index columns = run.task.input.columns;
  const Index rows = basis_rows(run.task.input.rows);
  const Index most =
      block_rows(run, rows, columns * 3 * static_cast<std::int64_t>(sizeof(std::int32_t)));
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

// A product of weights other than 0 that T has no full significand for.
template <class T>
void require_normal_products(const PathRun& run, const PathPanel& panel, const Skeleton& skeleton,
                             const PanelWeights<T>& weights, const Buffer<T>& values) {
  for (Index n = 0; n < values.size(); ++n) {
    if (std::abs(values[n]) >= std::numeric_limits<T>::min()) continue;
    const Path path = basis_path(skeleton, run.task.input.rows, n / panel.count, n % panel.count);
    if (weights.wq(path.q, path.col) == 0 || weights.wk(path.k, path.col) == 0) continue;
    run.refuse_result<T>("basis_value", panel, n, "below");
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
    require_normal_products(run, panel, skeleton, weights, values);
    run.write_skeleton(panel, skeleton);
    run.write("basis_value", panel, values.data());
    run.write("wk_skeleton", panel, kept.data());
  });
}

// Refuses a zero that everything else is divided by.
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
  run.for_each_panel(problem, [&](const PathPanel& panel) {
    const Buffer<T> numbers = run.read<T>("basis_value", panel);
    const Buffer<T> kept = run.read<T>("wk_skeleton", panel);
    const MatrixView<const T> values(numbers.data(), basis_rows(rows), panel.count);
    const Skeleton skeleton = run.skeleton<T>(panel, {}, {});
    require_divisors(run, panel, skeleton, values, kept.data());
    Buffer<T> wq(rows * panel.count);
    Buffer<T> wk(rows * panel.count);
    run.compute([&] {
      basis_weights<T>(values, skeleton, {kept.data(), static_cast<std::size_t>(panel.count)},
                       {wq.data(), rows, panel.count}, {wk.data(), rows, panel.count},
                       run.arguments.threads);
    });
    run.write("wq", panel, wq.data());
    run.write("wk", panel, wk.data());
  });
}

// The basis of a head, all of it: a path may go anywhere.
template <class T>
struct HeadBasis {
  Buffer<T> numbers;
  MatrixView<const T> values;
  Skeleton skeleton;

  HeadBasis(PathRun& run, Index problem) {
    const PathPanel all{problem, 0, run.task.input.columns};
    const std::int64_t bytes =
        basis_rows(run.task.input.rows) * all.count * static_cast<std::int64_t>(sizeof(T));
    if (bytes > run.arguments.memory) {
      throw Error(
          Failure::memory,
          fmt::format("the basis of one head needs {} of working memory, --memory allows {}",
                      bytes_text(static_cast<double>(bytes)),
                      bytes_text(static_cast<double>(run.arguments.memory))),
          fmt::format("--memory {}M", (bytes >> 20) + 1));
    }
    numbers = run.read<T>("basis_value", all);
    values = {numbers.data(), basis_rows(run.task.input.rows), all.count};
    skeleton = run.skeleton<T>(all, {}, {});
    require_divisors<T>(run, all, skeleton, values, nullptr);
  }
};

template <class T>
void require_finite_paths(const Buffer<T>& values, Index count, const std::string& address) {
  for (Index n = 0; n < count; ++n) {
    if (std::isfinite(values[n])) continue;
    throw Error(Failure::numerical,
                fmt::format("{}: the value of a path is beyond {}", address,
                            sizeof(T) == sizeof(float) ? "float32" : "float64"));
  }
}

template <class T>
void find_all_paths(PathRun& run, Index problem) {
  const HeadBasis<T> basis(run, problem);
  const Index rows = run.task.input.rows;
  const Index columns = run.task.input.columns;
  const Index most = block_rows(run, rows, columns * static_cast<std::int64_t>(sizeof(T)));
  const Buffer<T> block(most * columns);
  io::OutputDataset dataset = run.outputs.dataset("path_value");
  const Shape position = run.outputs.position(problem);
  for (Index q = 0; q < rows; ++q) {
    for (Index first = 0; first < rows; first += most) {
      const Index count = std::min(most, rows - first);
      run.compute([&] {
        path_values<T>(basis.values, basis.skeleton, q, first, {block.data(), count, columns},
                       run.arguments.threads);
      });
      require_finite_paths(block, count * columns, run.task.place("basis_value", problem));
      dataset.write(join(position, {q, first, 0}),
                    join(Shape(position.size(), 1), {1, count, columns}), block.data());
    }
  }
}

std::vector<Path> read_paths(const PathTask& task, Index problem) {
  if (!task.listed.empty()) return task.listed;
  const Operand& operand = *task.operand("path");
  const BlockAxes axes(operand, operand.block(problem), 0, operand.rows, 0, 3);
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(operand.rows * 3));
  operand.dataset.read(axes.start, axes.count, numbers.data());
  std::vector<Path> paths;
  const Index most[] = {task.input.rows, task.input.rows, task.input.columns};
  for (std::size_t n = 0; n < numbers.size(); ++n) {
    if (numbers[n] < 0 || numbers[n] >= most[n % 3]) {
      throw Error(
          Failure::input,
          fmt::format("{} has {} at {}, expected an index in [0, {})", operand.dataset.address(),
                      numbers[n], element_text(axes.start, axes.count, static_cast<Index>(n)),
                      most[n % 3]));
    }
    if (n % 3 == 2) paths.push_back({numbers[n - 2], numbers[n - 1], numbers[n]});
  }
  return paths;
}

template <class T>
void find_listed_paths(PathRun& run, Index problem) {
  const std::vector<Path> paths = read_paths(run.task, problem);
  const HeadBasis<T> basis(run, problem);
  const auto count = static_cast<Index>(paths.size());
  Buffer<T> values(count);
  run.compute([&] {
    for (Index n = 0; n < count; ++n) {
      values[n] = static_cast<T>(
          path_value<T>(basis.values, basis.skeleton, paths[static_cast<std::size_t>(n)]));
    }
  });
  require_finite_paths(values, count, run.task.place("basis_value", problem));
  run.outputs.write("path_value", problem, {count}, values.data());
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
  return fmt::format("{} basis paths a head, skeleton {}", paths, rule_name(run.task.rule));
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
  return fmt::format("values of {} basis paths a head, skeleton {}", paths,
                     rule_name(run.task.rule));
}

std::string reconstruct_from_paths(PathRun& run) {
  const PathTask& task = run.task;
  if (!task.makes_paths()) {
    run.create("wq", run.type());
    run.create("wk", run.type());
    run.for_each_head([&](Index problem) {
      task.f64 ? find_weights<double>(run, problem) : find_weights<float>(run, problem);
    });
    return "weights from basis paths";
  }
  if (task.all_paths) {
    const Shape own = {task.input.rows, task.input.rows, task.input.columns};
    run.outputs.create("path_value", run.type(), own, {"row of wq", "row of wk", "column"});
    run.for_each_head([&](Index problem) {
      task.f64 ? find_all_paths<double>(run, problem) : find_all_paths<float>(run, problem);
    });
    run.report.result()["paths"] = element_count(own);
    return fmt::format("values of all {} paths a head", element_count(own));
  }
  const Index count =
      task.listed.empty() ? task.operand("path")->rows : static_cast<Index>(task.listed.size());
  run.outputs.create("path_value", run.type(), {count}, {"path"});
  run.for_each_head([&](Index problem) {
    task.f64 ? find_listed_paths<double>(run, problem) : find_listed_paths<float>(run, problem);
  });
  run.report.result()["paths"] = count;
  return fmt::format("values of {} paths a head", count);
}

}  // namespace attn::tools
