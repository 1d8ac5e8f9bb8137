#pragma once

#include <cstdint>
#include <limits>

#include "attn_train/earlier_run.hpp"
#include "attn_train/run_file.hpp"
#include "attn_train/run_log.hpp"
#include "attn_train/task.hpp"
#include "train/schedule.hpp"

namespace attn::tools {

/// Trains a task to its last step, from the start or from the state in `file`: steps, lines of the
/// log, evaluations and checkpoints.
template <class T>
class Training {
 public:
  /// A new run begins from the weights of `from`, unless it is null. All arguments must outlive the
  /// object. Throws Error for options that do not fit together, and
  /// Error(memory) if the run needs more than --memory.
  Training(const cli::Arguments& arguments, cli::Report& report, const Recipe& recipe,
           Task<T>& task, RunFile& file, const EarlierRun* from);

  Index steps() const { return steps_; }                         ///< of the whole run
  std::int64_t working_bytes() const { return working_bytes_; }  ///< the most, as planned
  Index step() const { return progress_.step; }                  ///< steps done

  /// Returns whether all steps are done; false after a signal, with a checkpoint written. If a rank
  /// gets a signal, all ranks stop after the same step; only rank 0 writes. Throws Error(numerical)
  /// if the loss is not finite or a step in paths is singular.
  bool run();

  /// The last metrics, by split.
  const nlohmann::ordered_json& metrics() const { return metrics_; }

 private:
  struct Interval;  // what happened since the last line of the log, in this process

  std::vector<train::PathLayer> layers_at(const std::string& key) const;
  std::int64_t planned_bytes() const;
  void start();
  template <class Compute>
  auto guarded(const Compute& compute) const;
  void take_step(Interval& interval);
  nlohmann::ordered_json header() const;
  void write_line(RunLog& log, Interval& interval);
  void warn_of_loss(double loss);
  void require_finite() const;
  void require_same_start() const;
  void save();

  const cli::Arguments& arguments_;
  cli::Report& report_;
  const Recipe& recipe_;
  Task<T>& task_;
  RunFile& file_;
  const EarlierRun* from_;
  Index steps_;
  train::OptimizerOptions options_;
  train::Schedule schedule_;
  std::vector<train::PathLayer> in_paths_;
  std::int64_t working_bytes_;
  train::WeightOptimizer<T> optimizer_;
  Buffer<T> weights_;
  RunProgress progress_;
  nlohmann::ordered_json metrics_ = nlohmann::ordered_json::object();
  double least_loss_ = std::numeric_limits<double>::infinity();  // of the lines of this process
  bool warned_of_loss_ = false;
};

}  // namespace attn::tools
