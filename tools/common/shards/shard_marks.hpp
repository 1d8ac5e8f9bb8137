#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/report.hpp"
#include "common/frame/sections.hpp"
#include "common/shards/problem_share.hpp"
#include "common/shards/report_notes.hpp"
#include "common/shards/shard.hpp"
#include "io/input.hpp"
#include "io/output.hpp"

namespace attn::tools {

/// The description of a shard in its bundle's group `attn_shard`, by which tensor-join checks that
/// all parts of one run are present, once each.
struct ShardMarks {
  Shard shard;
  std::string run;  ///< run_of, the same for all shards
  /// If the problems of one section are divided: its group, "" for INPUT itself, and the share.
  struct Divided {
    std::string group;
    ProblemShare problems;
  };
  std::optional<Divided> divided;
  std::vector<std::string> groups;  ///< otherwise, the groups of all shards, in order
  std::vector<std::string> own;     ///< the groups of this shard
  /// Paths in INPUT that an undivided run would not copy, apart from the datasets of -i.
  std::vector<std::string> left_out;
  std::vector<std::string> removed;  ///< attributes that an undivided run would remove, GROUP/NAME
  std::vector<ReportNotes> report;   ///< by section, for tools with a report
  /// The warnings of an undivided run, as far as the shard knows.
  struct Warnings {
    std::vector<cli::Report::OwnWarning> own;
    std::vector<std::string> unused;                         ///< unused_options
    std::set<std::pair<std::string, std::string>> outdated;  ///< ResultPlan::left_out
  };
  Warnings warnings;
};

inline constexpr const char* shard_group = "attn_shard";

/// Whether a group is `attn_shard`, or in it.
bool is_of_shard_marks(const std::string& group);

void write_shard_marks(const ShardMarks& marks, io::OutputBundle& output);

/// The working memory for the lists of problems and blocks of all shards.
struct ListMemory {
  std::int64_t allowed;
  std::int64_t taken = 0;
};

/// Adds the memory of this shard's lists to `memory`; Error(memory) beyond the limit, as a short
/// text can name any number of problems. Throws Error(input) if the bundle is no shard, or unless
/// its marks are consistent: its own groups are among the groups of the run, once each; pieces have
/// distinct names, and blocks inside the whole dataset; and the report has notes on each own
/// section. Whether the results agree with the marks is not checked.
ShardMarks read_shard_marks(const io::InputBundle& bundle, ListMemory& memory);

/// The path GROUP/NAME of a dataset or an attribute; NAME if the group is "", the root.
std::string path_in(const std::string& group, const std::string& name);

/// The inverse of path_in: the group and the name in it.
std::pair<std::string, std::string> group_and_name(const std::string& path);

}  // namespace attn::tools
