#pragma once

#include <string>
#include <vector>

#include "cli/command.hpp"
#include "seed_test/logged_run.hpp"
#include "tensor/shape.hpp"
#include "train/significance.hpp"

namespace attn::tools {

/// The results of the runs of one kind. A table prints `mean` ± `deviation` without saying which
/// deviation this is.
struct RunGroup {
  std::string name = {};               ///< in messages and reports
  std::vector<std::string> runs = {};  ///< a log or a number each; empty for a printed mean
  std::vector<Index> seeds = {};       ///< of the runs, if all logs have them; else empty
  std::vector<double> values = {};     ///< of the runs; empty for a printed mean
  train::Sample sample = {};           ///< of the runs; for a printed mean, NaN as deviations
  double deviation = 0;                ///< as printed; of the population, if there are runs
};

/// The runs of one kind: numbers, or logs; each metric of a log is read once.
class Runs {
 public:
  /// The numbers or the logs that the words of the command line name. Throws Error(input) for a log
  /// that cannot be used, if two logs are the same run, and for logs mixed with numbers.
  explicit Runs(const std::vector<std::string>& words);

  /// Throws Error(input) if two logs are the same run.
  explicit Runs(std::vector<LoggedRun> logs);

  bool are_logs() const { return !logs_.empty(); }

  /// The group of this name, with results by `metric`, which numbers ignore. Throws like
  /// LoggedRun::value, and Error(input) if their deviation is beyond float64.
  RunGroup group(const std::string& name, const std::string& metric, Chosen chosen) const;

 private:
  void take_seeds();

  std::vector<std::string> words_;
  std::vector<LoggedRun> logs_;
  std::vector<Index> seeds_;
  std::vector<double> numbers_;
};

/// The group of a printed mean ± deviation.
RunGroup printed_group(const std::string& name, double mean, double deviation, Index count);

}  // namespace attn::tools
