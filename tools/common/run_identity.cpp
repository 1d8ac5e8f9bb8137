#include "common/run_identity.hpp"

#include <sys/stat.h>

#include <array>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/parse.hpp"
#include "io/address.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

// Options of which no result depends.
constexpr std::array without_effect = {
    "output",           "shard",          "only",    "force",          "compress",
    "threads",          "memory",         "tmpdir",  "dry_run",        "json",
    "progress",         "quiet",          "verbose", "allow_external", "checkpoint",
    "checkpoint_every", "requeue_status", "ranks",   "rank_timeout"};

Json file_of(const std::string& address) {
  const std::string name = io::parse_address(address).file;
  Json file = {{"address", address}};
  struct stat status {};
  if (stat(name.c_str(), &status) != 0) return file;
  file["size"] = status.st_size;
  file["changed"] = static_cast<double>(status.st_mtim.tv_sec) +
                    1e-9 * static_cast<double>(status.st_mtim.tv_nsec);
  return file;
}

}  // namespace

std::string params_text(cli::Report& report) {
  Json params = report.params();
  for (const char* const name : without_effect) params.erase(name);
  return params.dump();
}

std::string run_of(const cli::Arguments& arguments) {
  Json options = cli::params_of(arguments);
  for (const char* const name : without_effect) options.erase(name);
  Json run = {{"tool", arguments.tool}, {"version", arguments.version}, {"options", options}};
  run["files"] = Json::array();
  for (const std::string& input : arguments.inputs) run["files"].push_back(file_of(input));
  for (const auto& named : arguments.named_inputs) run["files"].push_back(file_of(named.second));
  return run.dump();
}

std::string run_difference(const std::string& one, const std::string& other) {
  const Json a = Json::parse(one, nullptr, false).flatten();
  const Json b = Json::parse(other, nullptr, false).flatten();
  const auto text = [](const Json& run, const std::string& key) {
    const auto found = run.find(key);
    return found == run.end() ? std::string("absent") : found->dump();
  };
  std::set<std::string> found;
  for (const Json* const run : {&a, &b}) {
    for (const auto& item : run->items()) found.insert(item.key());
  }
  // Other tools and versions have other options.
  std::vector<std::string> keys = {"/tool", "/version"};
  keys.insert(keys.end(), found.begin(), found.end());
  for (const std::string& key : keys) {
    if (text(a, key) == text(b, key)) continue;
    const std::string name = key.starts_with("/options/") ? key.substr(9) : key.substr(1);
    return fmt::format("{} is {}, not {}", name, text(a, key), text(b, key));
  }
  return "";
}

}  // namespace attn::tools
