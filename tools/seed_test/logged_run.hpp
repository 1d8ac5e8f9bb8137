#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tensor/shape.hpp"

namespace attn::tools {

/// Which of a run's logged values is its result.
enum class Chosen { last, least, largest };

/// The log of a finished run of attn-train: lines of JSON. The first describes the run; the others
/// record its progress from time to time.
class LoggedRun {
 public:
  /// Throws Error(input) for a file that cannot be read, for a line that is no JSON object (named
  /// by its number), and for a run that has not reached its last step.
  explicit LoggedRun(const std::string& file);

  const std::string& file() const { return file_; }

  /// The seed of the recipe; absent if the log does not have it.
  std::optional<Index> seed() const;

  /// The result of the run by `metric`, a name in a line, or several with dots between them for
  /// nested objects, as in "valid.perplexity". Throws Error(input) if no line has the metric, or if
  /// a value in use (the last; for the least and largest, each) is not finite.
  double value(const std::string& metric, Chosen chosen) const;

 private:
  void require_finished() const;
  std::string known_metrics() const;

  std::string file_;
  std::vector<nlohmann::ordered_json> lines_;
};

}  // namespace attn::tools
