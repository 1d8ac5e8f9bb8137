#include "common/shard_marks.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "cli/parse.hpp"
#include "io/address.hpp"

namespace attn::tools {
namespace {

// Options of which no result depends.
constexpr std::array without_effect = {"output",   "shard",  "only",    "force",         "compress",
                                       "threads",  "memory", "tmpdir",  "dry_run",       "json",
                                       "progress", "quiet",  "verbose", "allow_external"};

nlohmann::ordered_json file_of(const std::string& address) {
  const std::string name = io::parse_address(address).file;
  nlohmann::ordered_json file = {{"address", address}};
  struct stat status {};
  if (stat(name.c_str(), &status) != 0) return file;
  file["size"] = status.st_size;
  file["changed"] = static_cast<double>(status.st_mtim.tv_sec) +
                    1e-9 * static_cast<double>(status.st_mtim.tv_nsec);
  return file;
}

}  // namespace

std::string run_of(const cli::Arguments& arguments) {
  nlohmann::ordered_json options = cli::params_of(arguments);
  for (const char* const name : without_effect) options.erase(name);
  nlohmann::ordered_json run = {
      {"tool", arguments.tool}, {"version", arguments.version}, {"options", options}};
  run["files"] = nlohmann::ordered_json::array();
  for (const std::string& input : arguments.inputs) run["files"].push_back(file_of(input));
  for (const auto& named : arguments.named_inputs) run["files"].push_back(file_of(named.second));
  return run.dump();
}

void write_shard_marks(const ShardMarks& marks, io::OutputBundle& output) {
  io::OutputBundle group = output.group(shard_group);
  group.attribute("number", static_cast<std::int64_t>(marks.shard.number));
  group.attribute("count", static_cast<std::int64_t>(marks.shard.count));
  group.attribute("run", marks.run);
  group.write_strings("groups", marks.groups);
  group.write_strings("own", marks.own);
  group.write_strings("left_out", marks.left_out);
  group.write_strings("removed", marks.removed);
}

ShardMarks read_shard_marks(const io::InputBundle& bundle) {
  const auto refuse = [&]() -> Error {
    return Error(Failure::input, bundle.description() + " is no shard, the output of --shard");
  };
  const std::vector<std::string> groups = bundle.group_names();
  if (std::find(groups.begin(), groups.end(), shard_group) == groups.end()) throw refuse();
  const io::InputBundle group = bundle.group(shard_group);
  const auto number = group.number_attribute("number");
  const auto count = group.number_attribute("count");
  const auto run = group.text_attribute("run");
  if (!number || !count || !run) throw refuse();
  const auto list = [&](const char* name) { return group.dataset(name).read_strings(); };
  return {.shard = {static_cast<Index>(*number), static_cast<Index>(*count)},
          .run = *run,
          .groups = list("groups"),
          .own = list("own"),
          .left_out = list("left_out"),
          .removed = list("removed")};
}

}  // namespace attn::tools
