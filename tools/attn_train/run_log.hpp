#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "system/descriptor.hpp"
#include "tensor/shape.hpp"

namespace attn::tools {

/// The log of a run: a file of JSON lines, each complete as soon as it is written. The first is the
/// header, which says which run it is; the others have a member `step`.
class RunLog {
 public:
  /// An empty `file` means no log. `steps` is the number of steps done by a resumed run; its log
  /// keeps the lines up to that step, and the rest is cut off. For a new run, an existing file is
  /// refused unless `force`. Throws Error(output) for a refused file, a file that is not the log of
  /// the run of `header`, and a file that cannot be opened.
  RunLog(const std::string& file, const nlohmann::ordered_json& header, std::optional<Index> steps,
         bool force);

  /// Writes the header unless the file has it. Throws Error(output).
  void begin();

  /// Throws Error(output).
  void add(const nlohmann::ordered_json& line) const;

 private:
  std::string file_;
  nlohmann::ordered_json header_;
  Descriptor descriptor_;
  bool has_header_ = false;
};

}  // namespace attn::tools
