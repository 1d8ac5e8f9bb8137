#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "system/descriptor.hpp"
#include "tensor/shape.hpp"

namespace attn::tools {

/// The log of a run: a file of JSON lines, each complete as soon as it is written. Without a file,
/// lines are only counted.
class RunLog {
 public:
  /// An empty `file`: none. Keeps the first `lines` lines of an existing file, those that were
  /// there at the checkpoint, and cuts off the rest. For a new run, lines = 0, an existing file is
  /// refused unless `force`. Throws Error(output).
  RunLog(const std::string& file, Index lines, bool force);

  /// Lines of the run so far, also those that a lost file no longer has. The first is the header.
  Index lines() const { return lines_; }

  /// Whether the file has all earlier lines of the run, except for the header, which begin writes.
  bool complete() const { return kept_ == lines_ || lines_ == 1; }

  /// Writes the header unless the file has it. Throws Error(output).
  void begin(const nlohmann::ordered_json& header);

  /// Throws Error(output).
  void add(const nlohmann::ordered_json& line);

 private:
  std::string file_;
  Descriptor descriptor_;
  Index lines_ = 1;
  Index kept_ = 0;  // lines that the file had
  void write(const nlohmann::ordered_json& line) const;
};

}  // namespace attn::tools
