#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "seed_test/run_table.hpp"
#include "tensor/shape.hpp"

namespace attn::tools {

/// Which of a run's logged values is its result.
enum class Chosen { last, least, largest };

/// What a finished run logged, from time to time: lines of JSON, as attn-train writes them (the
/// first of its lines describes the run), or a table. Or what a table of runs says of one.
class LoggedRun {
 public:
  /// Reads a log: a CSV or TSV if its name ends so, else lines of JSON. Throws Error(input) for a
  /// file that cannot be read, for a line that is no JSON object (named by its number), and for a
  /// run of attn-train that has not reached its last step.
  explicit LoggedRun(const std::string& file);

  /// A run that is one row of a table.
  LoggedRun(const RunTable& table, const RunTable::Row& row);

  /// The file, and for a row the number of its line.
  const std::string& name() const { return name_; }

  /// The seed of the recipe, or the first value called seed; absent if the log has neither.
  std::optional<Index> seed() const;

  /// The result of the run by `metric`: a name in a line or a column, or several with dots
  /// between them for nested objects, as in "valid.perplexity". Throws Error(input) if no line has
  /// the metric, or if a value in use (the last; for the least and largest, each) is not finite.
  double value(const std::string& metric, Chosen chosen) const;

 private:
  struct Line {
    Index number;  ///< in the file, from 1
    nlohmann::ordered_json values;
  };

  void read_json(const std::string& file);
  void require_finished() const;
  std::string known_metrics() const;

  std::string file_;
  std::string name_;
  std::vector<Line> lines_;
};

}  // namespace attn::tools
