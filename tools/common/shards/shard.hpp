#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.hpp"
#include "cli/resolve.hpp"

namespace attn::tools {

/// A part of a run that is divided among several jobs.
struct Shard {
  Index number = 1;  ///< from 1 to count
  Index count = 1;   ///< to most_shards
};
inline constexpr Index most_shards = 1'000'000;

/// Declares --shard, which divides `parts`: "the groups".
void declare_shard(cli::Declaration& declaration, const std::string& parts);

/// The shard that `words` name: "3/64" is the third of 64. "auto" takes both numbers from the first
/// of these that is set, and "auto/64" only the first number:
///
///     Slurm's arrays   SLURM_ARRAY_TASK_ID, _MIN, _MAX, _STEP, _COUNT
///     PBS's, Torque's  PBS_ARRAY_INDEX, PBS_ARRAYID, which do not say how many there are
///     LSF's            LSB_JOBINDEX, LSB_JOBINDEX_END, LSB_JOBINDEX_STEP
///     SGE's            SGE_TASK_ID, _FIRST, _LAST, _STEPSIZE
///     ranks            those of launched_rank (launched_rank.hpp)
///
/// With "auto/64" an element of an array is the shard with the element's number, so that failed
/// elements can run again alone; a rank counts from 0. Throws Error(usage) for other words, for
/// numbers that do not fit, if nothing is set, and with "auto" for an array with gaps.
Shard parse_shard(const std::string& words, const cli::Environment& environment);

/// The shard that --shard names; empty without --shard.
std::optional<Shard> shard_of(const cli::Arguments& arguments);

/// "out.0003-of-0064.h5" for out.h5: the numbers before the ending, with at least four digits. %I
/// and %N in `output` are replaced by the plain numbers; the stream "-" and a device stay.
std::string shard_output(const std::string& output, const Shard& shard);

/// The arguments of a run that writes only its shard: with --shard, only the results, to
/// shard_output. Throws Error(usage) without an output, and if an input is a stream, which only one
/// of the jobs could read. A table in place of the bundle is left to require_no_table_of_shard.
cli::Arguments with_shard(const cli::Arguments& arguments);

/// Throws Error(usage) if a shard is to write a table in place of a bundle. A tool calls it after
/// its own checks, as these may know that no bundle would help.
void require_no_table_of_shard(const cli::Arguments& arguments);

/// Throws Error(usage) if a shard of some heads is to print a table: no group is complete.
void require_no_table_of_heads(const cli::Arguments& arguments);

/// The units [first, second) that a shard computes, given the work of each unit: the units whose
/// middle lies within the shard's part of the sum. Every unit belongs to one shard, each shard has
/// consecutive units, and the work of two shards differs by at most the work of two units. If no
/// unit has work, all count the same.
std::pair<std::size_t, std::size_t> share_of(std::vector<double> work, const Shard& shard);

}  // namespace attn::tools
