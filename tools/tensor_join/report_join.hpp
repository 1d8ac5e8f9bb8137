#pragma once

#include <optional>

#include "cli/command.hpp"
#include "tensor_join/shard_set.hpp"

namespace attn::tools {

/// Makes the report that the run would have made undivided, from what its shards keep: prints it,
/// and adds `report` to the result of the JSON, with the tool, its params and its result. Returns
/// the summary line and the exit status; nothing if the tool makes no report. Throws Error(input)
/// naming the shard whose notes are damaged.
std::optional<cli::Outcome> join_report(const cli::Arguments& arguments, const ShardSet& shards,
                                        cli::Report& report);

}  // namespace attn::tools
