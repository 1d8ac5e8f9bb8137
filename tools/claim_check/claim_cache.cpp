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

namespace attn::tools {
namespace {

namespace fs = std::filesystem;

std::string folder_of(const Claim& claim) {
  return fs::absolute(claim.file).lexically_normal().parent_path().string();
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool has_claims(const std::string& file) {
  if (!file.ends_with(".toml")) return false;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (line.rfind("[[claim]]", 0) == 0) return true;
  }
  return false;
}

std::vector<std::string> inputs_in(const std::string& folder) {
  std::vector<std::string> files = files_in(folder);
  std::erase_if(files,
                [](const std::string& file) { return file.ends_with(".md") || has_claims(file); });
  return files;
}

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

// The files that a command names, by their words; absent if it names a folder of inputs.
std::optional<std::map<std::string, std::string>> named_files(const Claim& claim) {
  const std::string folder = folder_of(claim);
  std::map<std::string, std::string> files;
  for (const std::string& word : path_words(claim.command)) {
    const std::size_t slash = word.find('/');
    std::error_code failed;
    if (slash == 0 && fs::is_regular_file(word, failed)) files[word] = word;
    const std::string below =
        folder + "/" + (slash == std::string::npos ? word : word.substr(slash));
    if (fs::is_regular_file(below, failed)) files[word] = below;
    const bool is_below = slash != std::string::npos && slash + 1 < word.size();
    if (is_below && fs::is_directory(below, failed)) return std::nullopt;
  }
  return files;
}

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
    throw Error(Failure::output, folder_ + ": " + (failed ? failed.message() : "not a folder"));
  }
  std::map<std::string, std::map<std::string, std::string>> named;  // by id
  std::set<std::string> files;
  std::map<std::string, std::string> beside;  // digests by the folder of a file of claims
  for (const Claim& claim : claims) {
    if (claim.alone) continue;
    auto found = named_files(claim);
    if (!found) continue;
    for (const auto& [word, file] : *found) files.insert(file);
    named[claim.id] = std::move(*found);
    const std::string home = folder_of(claim);
    if (beside.count(home) == 0) beside[home] = common_digest(inputs_in(home), scratch);
  }
  const std::string common = common_digest(files_in(tools), scratch);
  const auto digests = file_digests({files.begin(), files.end()}, scratch);
  const std::string cpu = cpu_model();
  for (const Claim& claim : claims) {
    const auto found = named.find(claim.id);
    if (found == named.end()) continue;
    Json key = text_of(claim);
    key["tools"] = common;
    key["cpu"] = cpu;
    key["beside"] = beside.at(folder_of(claim));
    key["named"] = Json::object();
    for (const auto& [word, file] : found->second) key["named"][word] = digests.at(file);
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
