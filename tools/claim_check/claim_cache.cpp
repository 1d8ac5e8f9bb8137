#include "claim_check/claim_cache.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "attnkit/error.hpp"
#include "claim_check/claim_json.hpp"
#include "claim_check/file_digests.hpp"
#include "claim_check/run_stamp.hpp"
#include "cli/text_file.hpp"
#include "common/text_input.hpp"
#include "system/system_reason.hpp"

namespace attn::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_script = std::size_t{1} << 20;

// What may be a path: "/usr/bin/python3", and "CLAIMS/../passage.h5" of "$CLAIMS/../passage.h5:/q".
std::set<std::string> path_words(const std::string& command) {
  static constexpr std::string_view letters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-";
  std::set<std::string> words;
  for (std::size_t begin = command.find_first_of(letters); begin != std::string::npos;) {
    const std::size_t end = std::min(command.find_first_not_of(letters, begin), command.size());
    words.insert(command.substr(begin, end - begin));
    begin = command.find_first_of(letters, end);
  }
  return words;
}

bool is_file(const std::string& file) {
  std::error_code failed;
  return fs::is_regular_file(file, failed);
}

// The files that the commands of one file of claims name, and those that these name in turn.
class NamedFiles {
 public:
  NamedFiles(std::string folder, std::string tools)
      : folder_(std::move(folder)), tools_(std::move(tools)) {}

  // Absent if the command names a folder of inputs.
  std::optional<std::set<std::string>> of(const std::string& command) {
    std::set<std::string> files;
    return add(path_words(command), files) ? std::optional(std::move(files)) : std::nullopt;
  }

 private:
  bool add(const std::set<std::string>& words, std::set<std::string>& files) {
    for (const std::string& word : words) {
      // Not of a division.
      if (word.find_first_not_of("/.") == std::string::npos) continue;
      const std::size_t slash = word.find('/');
      if (slash == 0 && is_file(word)) files.insert(word);
      const std::string below =
          folder_ + (slash == std::string::npos ? "/" + word : word.substr(slash));
      std::error_code failed;
      if (slash != std::string::npos && slash + 1 < word.size() &&
          fs::is_directory(below, failed)) {
        return false;
      }
      // A module of Python is named without its ending.
      for (const std::string& file : {below, below + ".py"}) {
        if (is_file(file) && files.insert(file).second && !add(words_in(file), files)) return false;
      }
      const std::string tool = tools_ + "/" + word;
      if (slash == std::string::npos && word[0] != '.' && is_file(tool)) files.insert(tool);
    }
    return true;
  }

  const std::set<std::string>& words_in(const std::string& file) {
    const auto [at, is_new] = words_.emplace(file, std::set<std::string>());
    std::error_code failed;
    // Larger files are no scripts.
    if (is_new && fs::file_size(file, failed) <= most_script && !failed) {
      at->second = path_words(read_text(file, most_script, "a text"));
    }
    return at->second;
  }

  std::string folder_;
  std::string tools_;
  std::map<std::string, std::set<std::string>> words_;  // by file
};

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

bool all_finite(const Values& values) {
  return std::all_of(values.numbers.begin(), values.numbers.end(),
                     [](double x) { return std::isfinite(x); });
}

}  // namespace

ClaimCache::ClaimCache(std::string folder, std::span<const Claim> claims, const std::string& tools,
                       const std::string& scratch)
    : folder_(std::move(folder)) {
  std::error_code failed;
  fs::create_directories(folder_, failed);
  if (!fs::is_directory(folder_)) {
    throw Error(Failure::output, "--cache=" + folder_ + ": " + system_reason(failed.value()));
  }
  std::map<std::string, std::set<std::string>> named;  // files by id
  std::map<std::string, NamedFiles> finders;           // by folder
  const std::string self = tools + "/claim-check";
  std::set<std::string> files = {self};
  for (const Claim& claim : claims) {
    if (claim.alone) continue;
    const std::string home = folder_of(claim);
    auto found = finders.try_emplace(home, home, tools).first->second.of(claim.command);
    if (!found) continue;
    found->insert(self);
    files.insert(found->begin(), found->end());
    named[claim.id] = std::move(*found);
  }
  const auto digests = file_digests({files.begin(), files.end()}, scratch);
  const std::string cpu = cpu_model();
  for (const Claim& claim : claims) {
    const auto found = named.find(claim.id);
    if (found == named.end()) continue;
    Json key = text_of(claim);
    key["cpu"] = cpu;
    // Two files of one name are told apart by their order.
    key["files"] = Json::array();
    for (const std::string& file : found->second) {
      key["files"].push_back({fs::path(file).filename().string(), digests.at(file)});
    }
    keys_[claim.id] = key.dump();
  }
}

std::optional<ClaimResult> ClaimCache::find(const Claim& claim) const {
  const auto key = keys_.find(claim.id);
  std::ifstream stream(file_of(claim));
  if (key == keys_.end() || !stream) return std::nullopt;
  try {
    const Json kept = Json::parse(stream);
    if (kept.at("key").dump() != key->second) return std::nullopt;
    Measurement found = {values_of(kept.at("measured")), values_of(kept.at("expected")),
                         values_of(kept.at("over")), values_of(kept.at("against"))};
    take_numbers(claim.expected, found.expected);
    if (claim.test) take_numbers(claim.test->against, found.against);
    return known_result(claim, std::move(found), kept.at("seconds").get<double>());
  } catch (const Json::exception&) {
    return std::nullopt;  // a damaged entry: it is written anew
  }
}

void ClaimCache::keep(const Claim& claim, const ClaimResult& result) const {
  const auto key = keys_.find(claim.id);
  if (key == keys_.end() || !result.found || result.cached) return;
  const Measurement& found = *result.found;
  if (!all_finite(found.measured) || !all_finite(found.expected) || !all_finite(found.over) ||
      !all_finite(found.against)) {
    return;
  }
  const Json entry = {{"key", Json::parse(key->second)},     {"seconds", result.seconds},
                      {"measured", json_of(found.measured)}, {"expected", json_of(found.expected)},
                      {"over", json_of(found.over)},         {"against", json_of(found.against)}};
  cli::write_text(entry.dump() + "\n", file_of(claim), "cache");
}

}  // namespace attn::tools
