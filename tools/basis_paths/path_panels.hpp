#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "attnkit/error.hpp"
#include "basis_paths/path_parts.hpp"
#include "basis_paths/path_task.hpp"
#include "common/costs/block_plan.hpp"

namespace attn::tools {

/// Some columns of one head.
struct PathPanel {
  Index problem;
  Index first;
  Index count;
};

/// The number of columns of a panel, as rows of the plan, and the memory of all panels at a time.
struct PanelPlan : BlockPlan {
  bool beside = false;  ///< whether a panel is made while the previous one is written
};

/// Throws Error(memory) if not even one column, or one chunk of a dataset, fits.
PanelPlan plan_panels(const cli::Arguments& arguments, const PathTask& task);

/// Reads one section, some columns at a time. Columns are independent of each other, so results do
/// not depend on the number of columns in memory.
class PathReader {
 public:
  /// The arguments and the task must outlive the object.
  PathReader(const cli::Arguments& given, const PathTask& what) : arguments(given), task(what) {}

  const cli::Arguments& arguments;
  const PathTask& task;

  /// Calls `body` with panels of one head, as wide as --memory allows.
  void for_each_panel(Index problem, const std::function<void(const PathPanel&)>& body) const;

  /// The columns of an operand's block for the panel. Throws Error(input) naming an element that is
  /// not finite.
  template <class T>
  Buffer<T> read(const std::string& name, const PathPanel& panel) const;

  /// The skeleton of the panel, stored or by rule; only `largest` needs the weights.
  template <class T>
  Skeleton skeleton(const PathPanel& panel, MatrixView<const T> wq, MatrixView<const T> wk) const;

  /// The skeleton of all columns of a head.
  Skeleton head_skeleton(Index problem) const;

  /// Throws Error(numerical) naming a weight of the skeleton that is 0.
  template <class T>
  void require_skeleton(const PathPanel& panel, const Skeleton& skeleton, MatrixView<const T> wq,
                        MatrixView<const T> wk) const;
};

/// The weights of a panel.
template <class T>
struct PanelWeights {
  Buffer<T> q_numbers;
  Buffer<T> k_numbers;
  MatrixView<const T> wq;
  MatrixView<const T> wk;

  PanelWeights(const PathReader& reader, const PathPanel& panel)
      : q_numbers(reader.read<T>("wq", panel)),
        k_numbers(reader.read<T>("wk", panel)),
        wq(q_numbers.data(), reader.task.input.rows, panel.count),
        wk(k_numbers.data(), reader.task.input.rows, panel.count) {}
};

/// A PathReader with an output.
class PathRun : public PathReader, public PathWork {
 public:
  /// Checkpoint, progress and report must outlive the object, too.
  PathRun(const cli::Arguments& arguments, const PathTask& task, io::OutputBundle output,
          Checkpoint* checkpoint, cli::Progress& progress, cli::Report& report);

  DType type() const { return task.f64 ? DType::f64 : DType::f32; }

  /// Creates a result with the task's own_shape, in chunks of panels if it is compressed.
  void create(const std::string& name, DType type);

  /// The place of a panel in a whole result, also in a shard.
  PathBlock place(const std::string& name, const PathPanel& panel) const;

  /// Makes the columns of a head in parts, as wide as --memory allows; `found` as in in_parts.
  template <class Found>
  void in_panels(Index problem, Found& found,
                 const std::function<void(const PathPanel& panel, PathPart& part)>& make) {
    const PanelPlan plan = plan_panels(arguments, task);
    pool_.reserve(plan.bytes);
    in_parts(
        task.input.columns, plan.rows, found,
        [&](Index first, Index count, PathPart& part) {
          make({problem, first, count}, part);
        },
        plan.beside);
  }
  void in_panels(Index problem,
                 const std::function<void(const PathPanel& panel, PathPart& part)>& make) {
    char nothing = 0;
    in_panels(problem, nothing, make);
  }

  /// Adds columns of a result to a part. Throws Error(numerical) if a number is not finite.
  template <class T>
  void put(PathPart& part, const std::string& name, const PathPanel& panel, Buffer<T> values) const;
  void put_skeleton(PathPart& part, const PathPanel& panel, const Skeleton& skeleton) const;

 private:
  PathBlock stored_place(const std::string& name, const PathPanel& panel) const;
};

/// Memory for the rows of a skeleton, per column, including buffers.
constexpr auto skeleton_column_bytes = 6 * static_cast<std::int64_t>(sizeof(Index));

}  // namespace attn::tools
