#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/shards/checked_notes.hpp"
#include "io/output.hpp"

namespace attn::tools {

/// What a shard keeps of the report on one section, from which tensor-join makes the report of the
/// whole run.
struct ReportNotes {
  std::string group;  ///< of the section, "" for INPUT itself
  /// JSON, whose member "common" is the same for all parts of a section.
  std::string figures;
  std::string params = {};                                  ///< JSON: the params of the report
  std::map<std::string, std::vector<double>> numbers = {};  ///< long lists
  std::vector<std::string> names = {};                      ///< of keys
  /// How many of the shard's own warnings came before this part of the report.
  std::size_t warnings = 0;
  std::string place = {};  ///< of notes that were read: their file and group, for messages
};

/// Writes the notes of all sections to a group.
void write_report_notes(const std::vector<ReportNotes>& notes, io::OutputBundle& group);

/// The notes in such a group; those of `warnings` at most. Throws Error(input) that names what is
/// missing or is no such list.
std::vector<ReportNotes> read_report_notes(const CheckedGroup& group, std::size_t warnings);

/// The JSON of notes that were read.
CheckedJson figures_of(const ReportNotes& notes);

/// The heads of which notes tell: all along the axes `leading` or, of a section whose heads are
/// divided, those of a shard.
struct HeadShare {
  Index own = 0;
  Index all = 0;
};
/// How many there are. Throws Error(input) if `leading` has not as many as `share` says.
Index own_heads(const CheckedJson& leading, const std::optional<HeadShare>& share);

/// Their list `name`. Throws Error(input) if it is missing or has not `count` numbers.
const std::vector<double>& numbers_of(const ReportNotes& notes, const std::string& name,
                                      Index count);

}  // namespace attn::tools
