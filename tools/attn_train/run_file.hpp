#pragma once

#include <limits>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "attn_train/task.hpp"
#include "cli/command.hpp"
#include "io/input.hpp"
#include "io/target/sole_writer.hpp"
#include "train/weight_optimizer.hpp"

namespace attn::tools {

/// The name of the checkpoint before the last one: RUN.previous.h5 for RUN.h5.
std::string previous_of(const std::string& path);

/// The identity of a run. Runs with the same identity produce the same bytes.
struct RunIdentity {
  nlohmann::ordered_json recipe;  ///< by key, without the names of files
  std::string data;               ///< SplitTexts::print
  std::string version;
  bool begins_from = false;  ///< the run begins from the weights of another one
  /// The print of its checkpoint; absent if that is gone, when any one will do.
  std::optional<std::string> from;
};

/// The state of a run between two steps, besides its weights and the state of its optimiser.
struct RunProgress {
  Index step = 0;  ///< steps done
  // Since the last line of the log.
  double loss = 0;  ///< the sum over targets
  double targets = 0;
  double least_ratio = std::numeric_limits<double>::infinity();
  double largest_ratio = -std::numeric_limits<double>::infinity();
};

/// What a checkpoint has besides the state of the run.
struct SavedExtras {
  bool inputs = false;          ///< Task::write_inputs
  bool source_weights = false;  ///< Task::write_source_weights
};

/// The file RUN.h5: a bundle with the model and all data that the run needs to resume. The file
/// appears whole or not at all; the previous file is kept as RUN.previous.h5. One process at a time
/// holds the file, from its first look at it to its end; among ranks, rank 0.
class RunFile {
 public:
  /// Looks at an existing file. Throws Error(usage) unless -o names an HDF5 file; Error(output)
  /// while another process has the file, and without --force for an existing file that is not a run
  /// of this identity; Error(input) for a damaged file.
  RunFile(const cli::Arguments& arguments, cli::Report& report, RunIdentity identity);

  /// The steps that an existing run of this identity has done.
  std::optional<Index> steps_done() const { return steps_done_; }

  /// The weights that the run began from: "digest", the print of the checkpoint, and what
  /// EarlierRun::shared_with says. Null if it began from none, or is new and nothing was said.
  const nlohmann::ordered_json& from() const { return from_; }
  void set_from(nlohmann::ordered_json from) { from_ = std::move(from); }

  /// Reads the state of that run. Throws Error(input) for a damaged file.
  template <class T>
  RunProgress load(const Task<T>& task, T* weights, train::WeightOptimizer<T>& optimizer) const;

  /// Writes a checkpoint. Throws Error(output); the previous checkpoint then still exists.
  template <class T>
  void save(Task<T>& task, T* weights, train::WeightOptimizer<T>& optimizer,
            const RunProgress& progress, const SavedExtras& extras);

  const std::string& path() const { return path_; }

 private:
  void look_at_existing(const cli::Arguments& arguments, cli::Report& report);
  void keep_previous() const;

  std::string path_;
  std::optional<io::SoleWriter> only_;  // of the process that writes
  RunIdentity identity_;
  std::string history_;
  nlohmann::ordered_json from_;
  std::optional<io::InputBundle> existing_;
  std::optional<Index> steps_done_;
  bool replaces_ = false;
  int deflate_ = 0;
};

}  // namespace attn::tools
