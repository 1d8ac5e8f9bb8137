#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tensor/shape.hpp"

namespace attn::tools {

/// Which of the values that a run logged is its result.
enum class Chosen { last, least, largest };

/// The log of a finished run of attn-train: lines of JSON, of which the first says how the run was
/// made and the others, from time to time, how far it is.
class LoggedRun {
 public:
  /// Throws Error(input) for a file that cannot be read, for a line that is no JSON object (named
  /// by its number), and for a run that has not reached its last step.
  explicit LoggedRun(const std::string& file);

  const std::string& file() const { return file_; }

  /// As its recipe says; absent in a log that does not say it.
  std::optional<Index> seed() const;

  /// The result of the run by `metric`, a name in a line, or several with dots between them where
  /// objects are nested, as in "valid.perplexity". Throws Error(input) if no line has it, or if one
  /// that is looked at has no finite number there: the last that has it, or each for the least and
  /// the largest.
  double value(const std::string& metric, Chosen chosen) const;

 private:
  void require_finished() const;
  std::string known_metrics() const;

  std::string file_;
  std::vector<nlohmann::ordered_json> lines_;
};

}  // namespace attn::tools
