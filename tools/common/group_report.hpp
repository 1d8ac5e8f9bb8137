#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/command.hpp"

namespace attn::tools {

/// What a tool with --each reports of its groups: runs the ordinary report of each, and makes one
/// `result` of them, {"groups": [{"group": "text/wiki/layer0", <the ordinary result>}, ...]}.
class GroupReport {
 public:
  /// Runs `body`, which fills `report` as if the group were all there is. What it throws passes;
  /// the report then has the groups up to there.
  void add(const std::string& group, cli::Report& report, const std::function<void()>& body);

  std::size_t size() const { return entries_.size(); }

  /// The ordinary result of the group added last.
  const nlohmann::ordered_json& last() const { return entries_.back().result; }

  /// Replaces the report's result by that of all groups. A parameter that differs between them is
  /// null in `params`, and the groups have it in a "params" of their own.
  void write(cli::Report& report) const;

  /// That, or without --each the result of the only group.
  void conclude(bool each, cli::Report& report) const;

 private:
  struct Entry {
    std::string group;
    nlohmann::ordered_json params;
    nlohmann::ordered_json result;
  };
  std::vector<Entry> entries_;
};

}  // namespace attn::tools
