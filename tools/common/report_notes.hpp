#pragma once

#include <map>
#include <string>
#include <vector>

#include "io/input.hpp"
#include "io/output.hpp"

namespace attn::tools {

/// What a shard keeps of the report on one section, from which tensor-join makes the report of the
/// whole run.
struct ReportNotes {
  std::string group;                                        ///< of the section, "" for INPUT itself
  std::string figures;                                      ///< JSON
  std::string params = {};                                  ///< JSON: the params of the report
  std::map<std::string, std::vector<double>> numbers = {};  ///< long lists
  std::vector<std::string> names = {};                      ///< of keys
};

/// Writes the notes of all sections to a group.
void write_report_notes(const std::vector<ReportNotes>& notes, io::OutputBundle& group);

/// The notes in such a group. Throws Error(input) for a dataset that is missing.
std::vector<ReportNotes> read_report_notes(const io::InputBundle& group);

}  // namespace attn::tools
