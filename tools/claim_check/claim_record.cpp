#include "claim_check/claim_record.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <system_error>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "claim_check/claim_json.hpp"
#include "cli/words.hpp"
#include "common/frame/text_input.hpp"
#include "system/system_reason.hpp"

namespace attn::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_bytes = std::size_t{1} << 26;

std::optional<double> number_in(const Json& line, const char* name) {
  const Json& value = line.at(name);
  return value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

RecordedClaim claim_in(const Json& line) {
  return {line.at("id").get<std::string>(), line.at("verdict").get<std::string>(),
          number_in(line, "measured"),      number_in(line, "expected"),
          number_in(line, "unit"),          number_in(line, "headroom")};
}

ClaimRecord record_in(const std::string& file) {
  ClaimRecord record;
  record.file = file;
  std::istringstream lines(read_text(file, most_bytes, "a record of claim-check"));
  std::size_t number = 0;
  for (std::string text; std::getline(lines, text);) {
    ++number;
    try {
      const Json line = Json::parse(text);
      record.claims.push_back(claim_in(line));
      if (number == 1) {
        record.stamp = {line.at("commit").get<std::string>(), line.at("version").get<std::string>(),
                        line.at("cpu").get<std::string>(), line.at("date").get<std::string>()};
      }
    } catch (const nlohmann::json::exception& error) {
      throw Error(Failure::input, fmt::format("{}:{}: expected a line of claim-check --record: {}",
                                              file, number, cli::one_line(json_reason(error))));
    }
  }
  if (record.claims.empty()) {
    throw Error(Failure::input, file + ": is empty, expected a record of claim-check");
  }
  return record;
}

std::vector<std::string> record_files(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed)) {
    if (entry.path().extension() == record_ending) files.push_back(entry.path().string());
  }
  if (failed) throw Error(Failure::input, folder + ": " + system_reason(failed.value()));
  if (files.empty()) {
    throw Error(Failure::input, folder + ": has no record of claim-check --record");
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::string record_text(const ClaimResults& all, const RunStamp& stamp) {
  std::string text;
  for (std::size_t n = 0; n < all.claims.size(); ++n) {
    const Claim& claim = all.claims[n];
    const ClaimResult& result = all.results[n];
    const auto known = [&](double value) {
      return json_number(result.ran() ? std::optional(value) : std::nullopt);
    };
    const double unit = headroom_unit(claim.criterion, result.verdict);
    Json line = {{"id", claim.id},
                 {"commit", stamp.commit},
                 {"version", stamp.version},
                 {"cpu", stamp.cpu},
                 {"date", stamp.date},
                 {"verdict", verdict_word(result)},
                 {"measured", known(result.verdict.measured)},
                 {"expected", known(result.verdict.expected)},
                 {"unit", unit > 0 ? known(unit) : Json()},
                 {"headroom", json_number(headroom(claim, result))}};
    // The name of a commit may have bytes that are not UTF-8.
    text += line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  return text;
}

std::string record_name(const RunStamp& stamp) {
  std::string name;
  for (const char c : stamp.date) {
    if (c != '-' && c != ':') name += c;
  }
  name += "-";
  // A name of a commit may have slashes.
  for (const char c : stamp.commit) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '-' || c == '.';
    name += is_plain ? c : '_';
  }
  return name;
}

ClaimRecord read_record(const std::string& place) {
  std::error_code failed;
  return record_in(fs::is_directory(place, failed) ? record_files(place).back() : place);
}

std::vector<ClaimRecord> read_records(const std::string& folder) {
  std::vector<ClaimRecord> records;
  for (const std::string& file : record_files(folder)) records.push_back(record_in(file));
  return records;
}

}  // namespace attn::tools
