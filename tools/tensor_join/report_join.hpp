#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "tensor_join/shard_set.hpp"

namespace attn::tools {

/// Throws Error(usage) for an option of tables if the shards are of a tool without tables.
void require_table(const cli::Arguments& arguments, const ShardSet& shards);

/// Makes the report of the undivided run from the notes of its shards: prints it, or the table that
/// --tsv and related options request, and adds `report` to the result of the JSON, with the tool,
/// its params and its result. Returns the summary line, the exit status and the commit of the
/// table; nothing if the tool makes no report. Repeats `warnings` (ShardSet::Warnings), each before
/// the report on the section that it precedes. Throws Error(input) naming the shard whose notes are
/// damaged.
std::optional<cli::Outcome> join_report(const cli::Arguments& arguments, const ShardSet& shards,
                                        const std::vector<std::vector<std::string>>& warnings,
                                        cli::Report& report);

}  // namespace attn::tools
