#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "common/runs/run_identity.hpp"
#include "io/input.hpp"
#include "io/output.hpp"
#include "tensor_join/shard_set.hpp"

namespace attn::tools {

/// What --with and -i add to the results of the shards: the contents of INPUT and the datasets of
/// -i, as the run without --shard and without --only has them in its output.
class InputJoin {
 public:
  /// Opens the inputs. Throws Error(usage) if they are not all those of the run, with the options
  /// that are; Error(input) for one that differs from that of the run, and what io::InputBundle
  /// throws. The arguments must outlive it.
  InputJoin(const cli::Arguments& arguments, const ShardSet& shards, cli::Report& report);

  /// Whether neither --with nor -i is given.
  bool empty() const { return !bundle_; }

  /// What the shards have in place of an input: u by head of attn-compute, which a run writes with
  /// --only alone. The inputs added here have it as it was given.
  std::vector<std::string> replaced() const;

  /// Adds them. What the shards have written stays.
  void write(io::OutputBundle& output) const;

 private:
  void require_all(const std::vector<RunInput>& inputs) const;
  void require_same(const RunInput& input, const std::string& option,
                    const std::string& address) const;

  const cli::Arguments& arguments_;
  const ShardSet& shards_;
  std::optional<io::InputBundle> bundle_;
};

}  // namespace attn::tools
