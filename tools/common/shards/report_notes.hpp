#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/shards/checked_notes.hpp"
#include "io/output.hpp"

namespace attn::tools {

/// A shard's notes of the report on one section, from which tensor-join makes the report of the
/// whole run.
struct ReportNotes {
  std::string group;  ///< of the section, "" for INPUT itself
  /// JSON; its member "common" is the same for all parts of a section.
  std::string figures;
  std::string params = {};                                  ///< JSON: the params of the report
  std::map<std::string, std::vector<double>> numbers = {};  ///< long lists
  std::vector<std::string> names = {};                      ///< of keys
  /// The number of the shard's own warnings before this part of the report.
  std::size_t warnings = 0;
  std::string place = {};  ///< of notes that were read: their file and group, for messages
};

/// Writes the notes of all sections to a group.
void write_report_notes(const std::vector<ReportNotes>& notes, io::OutputBundle& group);

/// The notes in such a group, none with more than `warnings` warnings. Throws Error(input) that
/// names a missing or malformed list.
std::vector<ReportNotes> read_report_notes(const CheckedGroup& group, std::size_t warnings);

/// The JSON of notes that were read.
CheckedJson figures_of(const ReportNotes& notes);

/// The heads that notes describe: all along the axes `leading` or, if the section's heads are
/// divided, the heads of a shard.
struct HeadShare {
  Index own = 0;
  Index all = 0;
};
/// The number of these heads. Throws Error(input) if `leading` does not have as many as `share`
/// says.
Index own_heads(const CheckedJson& leading, const std::optional<HeadShare>& share);

/// The list `name` of the notes. Throws Error(input) unless it has `count` numbers.
const std::vector<double>& numbers_of(const ReportNotes& notes, const std::string& name,
                                      Index count);

}  // namespace attn::tools
