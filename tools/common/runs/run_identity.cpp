#include "common/runs/run_identity.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <functional>
#include <set>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "cli/parse.hpp"
#include "common/shards/checked_notes.hpp"
#include "common/shards/json_text.hpp"
#include "io/address.hpp"
#include "io/arrays/array_file.hpp"
#include "io/contents.hpp"
#include "io/input.hpp"
#include "system/descriptor.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

// Options on which no result depends.
constexpr std::array without_effect = {"output",
                                       "shard",
                                       "only",
                                       "force",
                                       "compress",
                                       "tsv",
                                       "csv",
                                       "threads",
                                       "memory",
                                       "tmpdir",
                                       "dry_run",
                                       "json",
                                       "progress",
                                       "quiet",
                                       "verbose",
                                       "allow_external",
                                       "checkpoint",
                                       "checkpoint_every",
                                       "requeue_status",
                                       "ranks",
                                       "rank_timeout"};

Json file_of(const std::string& address, const std::string& name) {
  Json file = {{"address", address}};
  struct stat status {};
  if (stat(name.c_str(), &status) != 0) return file;
  file["size"] = status.st_size;
  file["changed"] = static_cast<double>(status.st_mtim.tv_sec) +
                    1e-9 * static_cast<double>(status.st_mtim.tv_nsec);
  return file;
}

// Only HDF5 refers to other files, and a pipe cannot be read twice.
bool can_have_sources(const std::string& address) {
  const std::string file = io::parse_address(address).file;
  std::error_code none;
  if (!std::filesystem::is_regular_file(file, none)) return false;
  const Descriptor descriptor = open_descriptor(file, O_RDONLY | O_NOCTTY);
  if (!descriptor) return false;
  std::array<unsigned char, 16> start{};
  const std::size_t count = io::read_start(descriptor.get(), file, start.data(), start.size());
  return io::array_format(start.data(), count).empty();
}

// Calls `look` for its effect. An object that cannot be opened is no part of the run, or the run
// refuses it.
void if_possible(const std::function<void()>& look) {
  try {
    look();
  } catch (const Error&) {
  }
}

// The files to which datasets of the HDF5 inputs refer, in virtual datasets, external links and raw
// storage. Such a file can change while the input itself does not. Their names are relative to the
// folder of the input, so that they can move together.
Json sources_of(const cli::Arguments& arguments) {
  Json sources = Json::array();
  const auto add = [&](const std::string& address, io::InputBundle::Options options,
                       const std::function<void(const io::InputBundle&)>& open) {
    if (!can_have_sources(address)) return;
    std::set<std::string> files;
    options.allow_external = arguments.allow_external;
    options.on_source = [&](const io::FollowedSource& source) {
      files.insert(source.files.begin(), source.files.end());
    };
    if_possible([&] { open(io::InputBundle(options)); });
    std::error_code none;
    const auto folder =
        std::filesystem::canonical(io::parse_address(address).file, none).parent_path();
    for (const std::string& file : files) {
      const auto name = std::filesystem::path(file).lexically_relative(folder);
      sources.push_back(file_of(name.string(), file));
    }
  };
  for (const std::string& input : arguments.inputs) {
    // Opens all datasets, which include those that the run reads.
    add(input, {.input = input, .named = {}, .tmpdir = arguments.tmpdir},
        [](const io::InputBundle& bundle) { static_cast<void>(io::contents(bundle, 0)); });
  }
  for (const auto& named : arguments.named_inputs) {
    add(named.second, {.input = {}, .named = {named}, .tmpdir = arguments.tmpdir},
        [](const io::InputBundle&) {});
  }
  return sources;
}

// What the units and states of checkpoints hold: a change of their contents needs the next number.
constexpr int checkpoint_format = 2;

}  // namespace

std::string params_text(cli::Report& report) {
  Json params = report.params();
  for (const char* const name : without_effect) params.erase(name);
  return json_text(params);
}

std::string run_of(const cli::Arguments& arguments) {
  Json options = cli::params_of(arguments);
  for (const char* const name : without_effect) options.erase(name);
  Json run = {{"tool", arguments.tool},
              {"version", arguments.version},
              {"format", checkpoint_format},
              {"options", options}};
  run["files"] = Json::array();
  const auto add = [&](const std::string& name, const std::string& address) {
    const std::string file = io::parse_address(address).file;
    Json json = file_of(address, file);
    json["name"] = name;
    json["inside"] = address.substr(file.size());
    run["files"].push_back(std::move(json));
  };
  for (const std::string& input : arguments.inputs) add("", input);
  for (const auto& [name, address] : arguments.named_inputs) add(name, address);
  run["sources"] = sources_of(arguments);
  return json_text(run);
}

RunDescription described_run(const std::string& run, const std::string& place) {
  const CheckedJson json(run, place);
  RunDescription described{json.at("tool").text(), {}};
  for (const CheckedJson& file : json.at("files").list()) {
    RunInput input{file.at("name").text(), file.at("address").text(), file.at("inside").text()};
    if (file.has("size")) input.size = file.at("size").count();
    if (file.has("changed")) input.changed = file.at("changed").number();
    described.inputs.push_back(std::move(input));
  }
  return described;
}

std::string input_difference(const RunInput& input, const std::string& address) {
  const std::string file = io::parse_address(address).file;
  const std::string inside = address.substr(file.size());
  if (inside != input.inside) {
    const auto text = [](const std::string& part) { return part.empty() ? "all of it" : part; };
    return fmt::format("it names {}, not {}", text(inside), text(input.inside));
  }
  const Json found = file_of(address, file);
  if (!found.contains("size")) return "";  // refused when it is opened
  const auto size = found["size"].get<std::int64_t>();
  if (size != input.size) {
    return fmt::format("its size is {}, not {}", size, input.size.value_or(0));
  }
  return found["changed"].get<double>() == input.changed ? "" : "it has changed since";
}

std::string run_difference(const std::string& one, const std::string& other) {
  const Json a = Json::parse(one, nullptr, false).flatten();
  const Json b = Json::parse(other, nullptr, false).flatten();
  const auto text = [](const Json& run, const std::string& key) {
    const auto found = run.find(key);
    return found == run.end() ? std::string("absent") : json_text(*found);
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
