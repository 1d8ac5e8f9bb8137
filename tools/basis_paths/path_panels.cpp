#include "basis_paths/path_panels.hpp"

#include <utility>

#include <fmt/format.h>

#include "cli/words.hpp"
#include "common/frame/bundles.hpp"
#include "common/runs/restart.hpp"

namespace attn::tools {
namespace {

// More memory for panels would not be faster, as the system clears it first. With a checkpoint, a
// stop loses the panel in progress, or must finish it within seconds.
constexpr std::int64_t panel_bytes = std::int64_t{320} << 20;
constexpr std::int64_t kept_panel_bytes = std::int64_t{64} << 20;

// Parts of rows that are whole pages of a file are cheapest to write.
constexpr Index page_bytes = 4096;

// Approximate number of elements in a chunk.
constexpr Index chunk_elements = Index{1} << 16;

// A panel in a dataset whose axes after the leading ones are `own`.
PathBlock block_of_panel(const Shape& position, const Shape& own, const PathPanel& panel) {
  PathBlock block = {position, Shape(position.size(), 1)};
  if (own.size() > 1) {
    block.start.push_back(0);
    block.count.push_back(own.front());
  }
  block.start.push_back(panel.first);
  block.count.push_back(panel.count);
  return block;
}

std::vector<Index> read_rows(const Operand& operand, const PathPanel& panel, Index rows) {
  const PathBlock block =
      block_of_panel(unravel(operand.block(panel.problem), operand.leading), {operand.cols}, panel);
  std::vector<Index> values(static_cast<std::size_t>(panel.count));
  operand.dataset.read(block.start, block.count, values.data());
  for (Index n = 0; n < panel.count; ++n) {
    const Index row = values[static_cast<std::size_t>(n)];
    if (row < 0 || row >= rows) refuse_index(operand.dataset, block, n, row, "a row", rows);
  }
  return values;
}

std::int64_t number_bytes(const PathTask& task) {
  return static_cast<std::int64_t>(task.f64 ? sizeof(double) : sizeof(float));
}

// Memory per column for the task's verb.
std::int64_t column_bytes(const PathTask& task) {
  const Index rows = task.input.rows;
  Index numbers = 2 * rows;
  if (task.verb == "values" || task.verb == "reconstruct") numbers += basis_rows(rows);
  if (task.verb == "step") {
    numbers += 2 * rows * (1 + static_cast<Index>(moment_parts(task.step).size()));
  }
  if (task.verb == "rescale") numbers += 2 * rows;
  return numbers * number_bytes(task) + skeleton_column_bytes;
}

}  // namespace

PanelPlan plan_panels(const cli::Arguments& arguments, const PathTask& task) {
  for (const ArraySource& dataset : task.datasets()) {
    require_readable(dataset, arguments.memory);
  }
  const std::int64_t column = column_bytes(task);
  const bool keeps = checkpoints(arguments);
  PanelPlan plan = {plan_blocks("one column of " + cli::counted(task.input.rows, "row"), 0, column,
                                task.input.columns, arguments.memory,
                                keeps ? kept_panel_bytes : panel_bytes)};
  if (plan.rows == task.input.columns) return plan;
  plan.beside = !keeps && arguments.threads > 1 && plan.rows > 1;
  const Index panels = plan.beside ? 2 : 1;
  const Index page_columns = page_bytes / number_bytes(task);
  plan.rows /= panels;
  if (plan.rows > page_columns) plan.rows -= plan.rows % page_columns;
  plan.bytes = panels * plan.rows * column;
  return plan;
}

PathRun::PathRun(const cli::Arguments& given, const PathTask& what, io::OutputBundle output,
                 Checkpoint* checkpoint, cli::Progress& progress, cli::Report& to)
    : PathReader(given, what),
      PathWork(std::move(output), what.input, PathTask::unit, given.memory, checkpoint, progress,
               to) {}

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

template <class T>
Buffer<T> PathReader::read(const std::string& name, const PathPanel& panel) const {
  const Operand& operand = *task.operand(name);
  const Shape position = unravel(operand.block(panel.problem), operand.leading);
  return read_finite<T>(operand.dataset, block_of_panel(position, task.own_shape(name), panel));
}

PathBlock PathRun::place(const std::string& name, const PathPanel& panel) const {
  return block_of_panel(unravel(panel.problem, task.input.leading), task.own_shape(name), panel);
}

PathBlock PathRun::stored_place(const std::string& name, const PathPanel& panel) const {
  return block_of_panel(outputs.position(panel.problem), task.own_shape(name), panel);
}

template <class T>
void PathRun::put(PathPart& part, const std::string& name, const PathPanel& panel,
                  Buffer<T> values) const {
  require_within_range(name, place(name, panel), values.data());
  part.add(name, stored_place(name, panel), std::move(values));
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

void PathRun::put_skeleton(PathPart& part, const PathPanel& panel, const Skeleton& skeleton) const {
  part.add("skeleton_q", stored_place("skeleton_q", panel), stored_indices(skeleton.q));
  part.add("skeleton_k", stored_place("skeleton_k", panel), stored_indices(skeleton.k));
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
template void PathRun::put(PathPart&, const std::string&, const PathPanel&, Buffer<float>) const;
template void PathRun::put(PathPart&, const std::string&, const PathPanel&, Buffer<double>) const;
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
