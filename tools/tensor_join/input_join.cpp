#include "tensor_join/input_join.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "cli/words.hpp"
#include "common/frame/bundles.hpp"
#include "common/shards/shard_marks.hpp"

namespace attn::tools {
namespace {

// "--with dump.h5", "-i k=k.h5:/k"
std::string option_of(const RunInput& input) {
  if (input.name.empty()) return "--with " + cli::shell_quoted(input.address);
  return "-i " + cli::shell_quoted(input.name + "=" + input.address);
}

}  // namespace

InputJoin::InputJoin(const cli::Arguments& arguments, const ShardSet& shards, cli::Report& report)
    : arguments_(arguments), shards_(shards) {
  if (!arguments.given("with") && arguments.named_inputs.empty()) return;
  require_all(shards.inputs());
  io::InputBundle::Options options = input_options(arguments, report);
  if (arguments.given("with")) options.input = arguments.text("with");
  options.named = arguments.named_inputs;
  bundle_.emplace(options);
}

void InputJoin::require_all(const std::vector<RunInput>& inputs) const {
  const auto& named = arguments_.named_inputs;
  std::vector<std::string> missing;
  std::size_t found = 0;
  for (const RunInput& input : inputs) {
    if (input.name.empty() && arguments_.given("with")) {
      require_same(input, "--with", arguments_.text("with"));
      ++found;
      continue;
    }
    const auto own = std::find_if(named.begin(), named.end(),
                                  [&](const auto& pair) { return pair.first == input.name; });
    if (own == named.end()) {
      missing.push_back(option_of(input));
      continue;
    }
    require_same(input, "-i " + own->first, own->second);
    ++found;
  }
  const std::string all = fmt::format("{}", fmt::join(missing, " "));
  if (!missing.empty()) {
    throw Error(Failure::usage,
                "the run of the shards copies all of its inputs or none, but --with and -i do not "
                "name all of them",
                "also " + all);
  }
  const std::size_t given = named.size() + (arguments_.given("with") ? 1 : 0);
  if (found == given) return;
  throw Error(Failure::usage, fmt::format("--with and -i name {}, but the run of the shards has {}",
                                          cli::counted(given, "input"), found));
}

void InputJoin::require_same(const RunInput& input, const std::string& option,
                             const std::string& address) const {
  const std::string difference = input_difference(input, address);
  if (difference.empty()) return;
  throw Error(Failure::input,
              fmt::format("{} {} is not the {} that the run of the shards has read: {}", option,
                          address, input.address, difference));
}

std::vector<std::string> InputJoin::replaced() const {
  if (empty()) return {};
  std::vector<std::string> paths;
  for (const std::string& group : shards_.groups()) {
    const std::string path = path_in(group, "hybrid");
    const bool named = std::any_of(arguments_.named_inputs.begin(), arguments_.named_inputs.end(),
                                   [](const auto& input) { return input.first == "hybrid"; });
    if (named || bundle_->without_named().has(path)) paths.push_back(path);
  }
  return paths;
}

void InputJoin::write(io::OutputBundle& output) const {
  if (empty()) return;
  std::vector<std::string> without = shards_.left_out();
  const auto is_without = [&](const std::string& path) {
    return std::find(without.begin(), without.end(), path) != without.end();
  };
  // Datasets of -i are stored in the first group, and have links in the others.
  const std::vector<std::string> groups = shards_.groups();
  std::vector<std::string> linked;
  std::vector<std::string> unlinked;
  for (const auto& named : arguments_.named_inputs) {
    const bool is_result = is_without(path_in(groups.front(), named.first));
    (is_result ? unlinked : linked).push_back(named.first);
  }
  for (const std::string& group : groups) {
    for (const auto& named : arguments_.named_inputs)
      without.push_back(path_in(group, named.first));
  }
  const std::vector<std::string> removed = shards_.removed(*bundle_);
  output.copy_from(bundle_->without_named(), without);
  output.group(groups.front()).copy_named_from(*bundle_, unlinked);
  for (std::size_t n = 1; n < groups.size(); ++n) {
    for (const std::string& name : linked) {
      output.group(groups[n]).link(name, path_in(groups.front(), name));
    }
  }
  for (const std::string& path : removed) {
    const auto [group, name] = group_and_name(path);
    output.group(group).remove_attribute(name);
  }
}

}  // namespace attn::tools
