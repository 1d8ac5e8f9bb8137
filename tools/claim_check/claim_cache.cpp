#include "claim_check/claim_cache.hpp"

#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <re2/re2.h>

#include "attnkit/error.hpp"
#include "claim_check/claim_json.hpp"
#include "claim_check/digests.hpp"
#include "claim_check/run_stamp.hpp"
#include "cli/text_file.hpp"
#include "system/system_reason.hpp"

namespace attn::tools {
namespace {

namespace fs = std::filesystem;

// Numbers in the text of a claim are not in the key: they are judged anew.
std::string place_in(const std::variant<std::vector<double>, std::string>& given) {
  const auto* place = std::get_if<std::string>(&given);
  return place == nullptr ? "" : *place;
}

void take_numbers(const std::variant<std::vector<double>, std::string>& given, Values& values) {
  if (const auto* numbers = std::get_if<std::vector<double>>(&given)) values.numbers = *numbers;
}

Json text_of(const Claim& claim) {
  return {{"command", claim.command},
          {"status", claim.status},
          {"value", claim.value},
          {"over", claim.over.value_or("")},
          {"reduction", claim.reduction ? static_cast<int>(*claim.reduction) : -1},
          {"line", claim.text.line.value_or(0)},
          {"pattern", claim.text.pattern.value_or("")},
          {"column", claim.text.column.value_or("")},
          {"expected", place_in(claim.expected)},
          {"against", claim.test ? place_in(claim.test->against) : ""}};
}

Json json_of(const Values& values) {
  Json json = {{"numbers", values.numbers}};
  if (values.shape) json["shape"] = *values.shape;
  return json;
}

Values values_of(const Json& json) {
  Values values;
  values.numbers = json.at("numbers").get<std::vector<double>>();
  if (json.contains("shape")) values.shape = json.at("shape").get<Shape>();
  return values;
}

// Paths by whether the command opened them.
Json json_of(const CommandReads& reads) {
  Json json = {{"opened", Json::array()}, {"seen", Json::array()}};
  for (const auto& [path, look] : reads.looks) json[look.opened ? "opened" : "seen"] += path;
  return json;
}

// Earlier observations of these do not count.
CommandReads reads_of(const Json& json) {
  CommandReads reads;
  reads.start = std::numeric_limits<std::int64_t>::max();
  for (const bool opened : {true, false}) {
    for (const Json& path : json.at(opened ? "opened" : "seen")) {
      reads.looks[path.get<std::string>()].opened = opened;
    }
  }
  return reads;
}

// This program and its libraries.
std::string program_digest(PathStates& states) {
  std::set<std::string> files = {"/proc/self/exe"};
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* all) {
        const std::string name = object->dlpi_name;
        if (name.starts_with('/')) static_cast<std::set<std::string>*>(all)->insert(name);
        return 0;
      },
      &files);
  std::string all;
  for (const std::string& file : files) {
    const auto state = states.of(file, true);
    if (state) all += state->text + '\0';
  }
  return sha256(all);
}

// The umask can only be read by setting it.
mode_t umask_here() {
  const mode_t found = umask(0);
  umask(found);
  return found;
}

// The value of ATTN_NUM_THREADS differs from run to run, unless the command sets it.
bool reads_threads(const Claim& claim) {
  static const RE2 reading(R"(\bATTN_NUM_THREADS(?:[^=\w]|$))");
  return RE2::PartialMatch(claim.command, reading);
}

struct Survey {
  std::string digest;   // of the states of all paths
  std::string problem;  // why these may differ from what the command saw; else ""
};

Survey survey_of(const CommandReads& reads, PathStates& states) {
  std::string all;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::string> first;  // path, by file
  for (const auto& [path, look] : reads.looks) {
    const auto state = states.of(path, look.opened);
    if (!state) return {"", "it looked at " + path + ", which cannot be read"};
    const bool changed = state->changed >= reads.start || (look.found && !state->is_there) ||
                         (look.missed && state->leads_somewhere);
    if (changed) return {"", path + " changed since it started"};
    const std::string& same = first.emplace(state->file, path).first->second;
    all += path + '\0' + state->text + '\0' + same + '\0';
  }
  return {sha256(all), ""};
}

std::vector<std::uint8_t> content_of(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace

ClaimCache::ClaimCache(std::string folder, std::span<const Claim> claims, const ClaimPlace& place)
    : folder_(std::move(folder)) {
  std::error_code failed;
  fs::create_directories(folder_, failed);
  if (!fs::is_directory(folder_)) {
    throw Error(Failure::output, "--cache=" + folder_ + ": " + system_reason(failed.value()));
  }
  const std::string common =
      fmt::format("{}\n{}\n{} {} {:o} {}\n", cpu_model(), program_digest(states_), geteuid(),
                  getegid(), umask_here(), fs::absolute(place.folder).parent_path().string());
  for (const Claim& claim : claims) {
    if (claim.alone || reads_threads(claim)) continue;
    std::string key = common + text_of(claim).dump();
    for (const std::string& variable : known_environment(claim, place)) key += '\0' + variable;
    keys_[claim.id] = sha256(key);
  }
}

std::optional<ClaimResult> ClaimCache::find(const Claim& claim) {
  const auto key = keys_.find(claim.id);
  if (key == keys_.end()) return std::nullopt;
  try {
    const Json kept = Json::from_cbor(content_of(file_of(claim)));
    if (kept.at("key") != key->second ||
        kept.at("state") != survey_of(reads_of(kept.at("reads")), states_).digest) {
      return std::nullopt;
    }
    Measurement found = {values_of(kept.at("measured")), values_of(kept.at("expected")),
                         values_of(kept.at("over")), values_of(kept.at("against"))};
    take_numbers(claim.expected, found.expected);
    if (claim.test) take_numbers(claim.test->against, found.against);
    return known_result(claim, std::move(found), kept.at("seconds").get<double>());
  } catch (const Json::exception&) {
    return std::nullopt;  // missing or damaged: it is written anew
  }
}

void ClaimCache::keep(const Claim& claim, ClaimResult& result) {
  if (result.cached || !result.ran() || !result.reads) return;
  const auto key = keys_.find(claim.id);
  if (key == keys_.end()) {
    if (reads_threads(claim)) result.not_kept = "it reads ATTN_NUM_THREADS";
    return;
  }
  const CommandReads& reads = *result.reads;
  const Survey survey = reads.more.empty() ? survey_of(reads, states_) : Survey{"", reads.more};
  result.not_kept = result.found ? survey.problem : "it has too many numbers";
  if (!result.not_kept.empty()) return;
  const Measurement& found = *result.found;
  const Json entry = {{"key", key->second},
                      {"reads", json_of(reads)},
                      {"state", survey.digest},
                      {"seconds", result.seconds},
                      {"measured", json_of(found.measured)},
                      {"expected", json_of(found.expected)},
                      {"over", json_of(found.over)},
                      {"against", json_of(found.against)}};
  // Paths need not be UTF-8, which JSON would require.
  const std::vector<std::uint8_t> bytes = Json::to_cbor(entry);
  cli::write_text({bytes.begin(), bytes.end()}, file_of(claim), "cache");
}

}  // namespace attn::tools
