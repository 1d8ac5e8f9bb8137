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

/// The additions of --with and -i to the results of the shards: the contents of INPUT and the
/// datasets of -i, as in the output of the run without --shard and --only.
class InputJoin {
 public:
  /// Opens the inputs. Throws Error(usage), naming the right options, unless these are all inputs
  /// of the run; Error(input) for an input that differs from the run's; and what io::InputBundle
  /// throws. The arguments must outlive the object.
  InputJoin(const cli::Arguments& arguments, const ShardSet& shards, cli::Report& report);

  /// Whether neither --with nor -i is given.
  bool empty() const { return !bundle_; }

  /// Datasets that the shards have in place of an input: u by head of attn-compute, which a run
  /// writes only with --only. The inputs added here have the original dataset.
  std::vector<std::string> replaced() const;

  /// Adds the inputs. Datasets that the shards have written stay.
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
