#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/failed.hpp"
#include "cli/report.hpp"

// The contents of a Report, for the files of lib/cli.

namespace attn::cli {

struct Report::Impl {
  std::string tool;
  bool quiet = false;

  nlohmann::ordered_json inputs = nlohmann::ordered_json::array();
  nlohmann::ordered_json outputs = nlohmann::ordered_json::array();
  nlohmann::ordered_json sources = nlohmann::ordered_json::array();
  nlohmann::ordered_json params = nlohmann::ordered_json::object();
  nlohmann::ordered_json result = nlohmann::ordered_json::object();
  nlohmann::ordered_json warnings = nlohmann::ordered_json::array();
  std::vector<OwnWarning> own_warnings;
  std::vector<std::string> notes;  ///< that were said, or would have been if not quiet
  std::set<std::string> said;      ///< by say_once, without addresses
  int unsaid = 0;
  nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
  std::string status;
  std::string text;
  std::string data;
  double compute_seconds = 0;
  bool json_file_spared = false;

  /// Adds a warning and prints it, unless it is a repetition. Returns its line.
  std::string add_warning(const std::string& line);

  /// The same for a warning of the run's own.
  void add_own(OwnWarning warning);

  /// Prints "TOOL: kind: line" on standard error at once, but not with -q.
  void say(const std::string& kind, const std::string& line);

  /// The same, but not if an earlier line differs only in the address with which it begins, as in
  /// each group of a dump.
  void say_once(const std::string& kind, const std::string& line);

  /// Prints how many lines say_once has left out.
  void note_unsaid();

  /// Prints one line that names the files of source(), if there are any.
  void note_sources();
};

/// The JSON report, indented, ending with a line break. `outcome` is the exit status of a run that
/// ended normally. If `failed` is not null, the status is "error" unless the tool set one.
std::string json_text(const Report::Impl& report, int outcome, const Failed* failed,
                      double wall_seconds, int threads);

}  // namespace attn::cli
