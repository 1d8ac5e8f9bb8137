#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/report.hpp"

// What a Report gathers; for the parts of lib/cli only.

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
  std::string status;
  std::string text;
  std::string data;
  double compute_seconds = 0;

  /// "TOOL: warning: line" on stderr, at once; not with -q.
  void say(const std::string& what, const std::string& line) const;

  /// One line about the files that were followed; none where there were none.
  void note_sources() const;
};

/// What ended a run that failed.
struct Failed {
  int exit = 0;
  std::string message;
  std::string hint;
};

/// The JSON of DESIGN.md §4, indented, ending with a line break. `outcome` is the exit status of a
/// run that ended by itself; `failed`, where there is one, makes it "error" unless the tool has
/// set a status of its own.
std::string json_text(const Report::Impl& report, int outcome, const Failed* failed,
                      double wall_seconds, int threads);

}  // namespace attn::cli
