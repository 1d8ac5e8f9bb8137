#include "basis_paths/path_panels.hpp"

#include <utility>

#include <fmt/format.h>

#include "cli/words.hpp"
#include "common/bundles.hpp"

namespace attn::tools {
namespace {

// Larger panels would not be faster.
constexpr std::int64_t panel_bytes = std::int64_t{640} << 20;

// Approximate number of elements in a chunk.
constexpr Index chunk_elements = Index{1} << 16;

// Start and count of a panel in a dataset whose axes after the leading ones are `own`.
struct PanelAxes {
  Shape start;
  Shape count;

  PanelAxes(const Shape& position, const Shape& own, const PathPanel& panel)
      : start(position), count(position.size(), 1) {
    if (own.size() > 1) {
      start.push_back(0);
      count.push_back(own.front());
    }
    start.push_back(panel.first);
    count.push_back(panel.count);
  }
};

std::vector<Index> read_rows(const Operand& operand, const PathPanel& panel, Index rows) {
  const PanelAxes axes(unravel(operand.block(panel.problem), operand.leading), {operand.cols},
                       panel);
  std::vector<std::int64_t> values(static_cast<std::size_t>(panel.count));
  operand.dataset.read(axes.start, axes.count, values.data());
  for (Index n = 0; n < panel.count; ++n) {
    const std::int64_t row = values[static_cast<std::size_t>(n)];
    if (row >= 0 && row < rows) continue;
    throw Error(Failure::input,
                fmt::format("{} has {} at {}, expected a row in [0, {})", operand.dataset.address(),
                            row, element_text(axes.start, axes.count, n), rows));
  }
  return {values.begin(), values.end()};
}

// Memory per column for the task's verb.
std::int64_t column_bytes(const PathTask& task) {
  const auto size = static_cast<std::int64_t>(task.f64 ? sizeof(double) : sizeof(float));
  const Index rows = task.input.rows;
  Index numbers = 2 * rows;
  if (task.verb == "values" || task.verb == "reconstruct") numbers += basis_rows(rows);
  if (task.verb == "step") numbers += keeps_moments(task.step.optimizer) ? 6 * rows : 2 * rows;
  if (task.verb == "rescale") numbers += 2 * rows;
  return numbers * size + skeleton_column_bytes;
}

}  // namespace

BlockPlan plan_panels(const cli::Arguments& arguments, const PathTask& task) {
  for (const io::InputDataset& dataset : task.datasets()) {
    require_readable(dataset, arguments.memory);
  }
  return plan_blocks("one column of " + cli::counted(task.input.rows, "row"), 0, column_bytes(task),
                     task.input.columns, arguments.memory, panel_bytes);
}

PathRun::PathRun(const cli::Arguments& given, const PathTask& what, io::OutputBundle output,
                 cli::Progress& progress, cli::Report& to)
    : PathReader(given, what),
      bundle(std::move(output)),
      outputs(bundle, what.input.leading, to, what.input.share.get()),
      report(to),
      progress_(progress) {}

void PathRun::create(const std::string& name, DType result_type) {
  const Shape own = task.own_shape(name);
  std::vector<std::string> labels = {"column"};
  if (own.size() > 1) labels.insert(labels.begin(), "row");
  if (own.size() > 2) labels.emplace_back("index");
  Shape chunk;
  const Index width = plan_panels(arguments, task).rows;
  if (arguments.compress > 0 && own.size() == 2 && width < task.input.columns) {
    chunk = {std::clamp<Index>(chunk_elements / width, 1, own.front()), width};
  }
  outputs.create(name, result_type, own, labels, chunk);
}

void PathReader::for_each_panel(Index problem,
                                const std::function<void(const PathPanel&)>& body) const {
  const Index width = plan_panels(arguments, task).rows;
  for (Index first = 0; first < task.input.columns; first += width) {
    body({problem, first, std::min(width, task.input.columns - first)});
  }
}

void PathRun::for_each_head(const std::function<void(Index problem)>& body) {
  for (Index n = 0; n < task.input.own_problems(); ++n) {
    body(task.input.own_problem(n));
    progress_.advance(1);
  }
}

void PathRun::compute(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  report.add_compute_seconds(spent.count());
}

template <class T>
Buffer<T> PathReader::read(const std::string& name, const PathPanel& panel) const {
  const Operand& operand = *task.operand(name);
  const Shape own = task.own_shape(name);
  const PanelAxes axes(unravel(operand.block(panel.problem), operand.leading), own, panel);
  Buffer<T> values(element_count(axes.count));
  operand.dataset.read(axes.start, axes.count, values.data());
  for (Index n = 0; n < values.size(); ++n) {
    if (std::isfinite(values[n])) continue;
    refuse_element(operand.dataset, axes.start, axes.count, n, values[n], "finite numbers");
  }
  return values;
}

template <class T>
void PathRun::refuse_result(const std::string& name, const PathPanel& panel, Index flat,
                            const char* where) const {
  // The place in the whole result, also in a shard.
  const PanelAxes axes(unravel(panel.problem, task.input.leading), task.own_shape(name), panel);
  refuse_number<T>(name, axes.start, axes.count, flat, where);
}

template <class T>
void PathRun::write(const std::string& name, const PathPanel& panel, const T* values) {
  const PanelAxes axes(outputs.position(panel.problem), task.own_shape(name), panel);
  if constexpr (std::is_floating_point_v<T>) {
    const Index size = element_count(axes.count);
    for (Index n = 0; n < size; ++n) {
      if (!std::isfinite(values[n])) refuse_result<T>(name, panel, n, "beyond");
    }
  }
  outputs.dataset(name).write(axes.start, axes.count, values);
}

template <class T>
Skeleton PathReader::skeleton(const PathPanel& panel, MatrixView<const T> wq,
                              MatrixView<const T> wk) const {
  switch (task.rule) {
    case SkeletonRule::cyclic:
    case SkeletonRule::across_heads:
      return cyclic_skeleton(task.input.rows, task.first_column(panel.problem) + panel.first,
                             panel.count);
    case SkeletonRule::largest:
      return largest_skeleton<T>(wq, wk);
    case SkeletonRule::stored:
      break;
  }
  return {read_rows(*task.operand("skeleton_q"), panel, task.input.rows),
          read_rows(*task.operand("skeleton_k"), panel, task.input.rows)};
}

Skeleton PathReader::head_skeleton(Index problem) const {
  Skeleton all;
  const auto add = [&](const Skeleton& part) {
    all.q.insert(all.q.end(), part.q.begin(), part.q.end());
    all.k.insert(all.k.end(), part.k.begin(), part.k.end());
  };
  for_each_panel(problem, [&](const PathPanel& panel) {
    if (task.rule != SkeletonRule::largest) return add(skeleton<float>(panel, {}, {}));
    if (task.f64) {
      const PanelWeights<double> weights(*this, panel);
      return add(skeleton(panel, weights.wq, weights.wk));
    }
    const PanelWeights<float> weights(*this, panel);
    return add(skeleton(panel, weights.wq, weights.wk));
  });
  return all;
}

void refuse_number(const std::string& name, const Shape& start, const Shape& count, Index flat,
                   const char* where, bool single) {
  throw Error(Failure::numerical,
              fmt::format("{} would be {} {} at {}", name, where, single ? "float32" : "float64",
                          element_text(start, count, flat)),
              single ? "--precision f64" : "");
}

void PathRun::write_skeleton(const PathPanel& panel, const Skeleton& skeleton) {
  const std::vector<std::int64_t> q(skeleton.q.begin(), skeleton.q.end());
  const std::vector<std::int64_t> k(skeleton.k.begin(), skeleton.k.end());
  write("skeleton_q", panel, q.data());
  write("skeleton_k", panel, k.data());
}

template <class T>
void PathReader::require_skeleton(const PathPanel& panel, const Skeleton& skeleton,
                                  MatrixView<const T> wq, MatrixView<const T> wk) const {
  const auto zero = zero_in_skeleton(wq, wk, skeleton);
  if (!zero) return;
  const Operand& weights = *task.operand(zero->of_q ? "wq" : "wk");
  const Shape at =
      join(unravel(panel.problem, task.input.leading), {zero->row, panel.first + zero->col});
  throw Error(Failure::numerical,
              fmt::format("{} has 0 at [{}], the skeleton's weight of column {}",
                          weights.dataset.address(), fmt::join(at, ", "), at.back()),
              task.rule == SkeletonRule::largest ? ""
              : task.rule == SkeletonRule::stored
                  ? "basis-paths identify --skeleton largest takes other rows"
                  : "--skeleton largest takes other rows");
}

template Buffer<float> PathReader::read(const std::string&, const PathPanel&) const;
template Buffer<double> PathReader::read(const std::string&, const PathPanel&) const;
template void PathRun::refuse_result<float>(const std::string&, const PathPanel&, Index,
                                            const char*) const;
template void PathRun::refuse_result<double>(const std::string&, const PathPanel&, Index,
                                             const char*) const;
template void PathRun::write(const std::string&, const PathPanel&, const float*);
template void PathRun::write(const std::string&, const PathPanel&, const double*);
template Skeleton PathReader::skeleton(const PathPanel&, MatrixView<const float>,
                                       MatrixView<const float>) const;
template Skeleton PathReader::skeleton(const PathPanel&, MatrixView<const double>,
                                       MatrixView<const double>) const;
template void PathReader::require_skeleton(const PathPanel&, const Skeleton&,
                                           MatrixView<const float>, MatrixView<const float>) const;
template void PathReader::require_skeleton(const PathPanel&, const Skeleton&,
                                           MatrixView<const double>,
                                           MatrixView<const double>) const;

}  // namespace attn::tools
