#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/command.hpp"
#include "common/frame/section_name.hpp"

namespace attn::tools {

/// The report of a tool over several sections: runs the ordinary report of each group and combines
/// these into one `result`, {"groups": [{"group": "text/wiki/layer0", <the ordinary result>},
/// ...]}. With several INPUTs each entry begins with "file".
class GroupReport {
 public:
  GroupReport();
  ~GroupReport();
  GroupReport(const GroupReport&) = delete;
  GroupReport& operator=(const GroupReport&) = delete;

  /// Runs `body`, which fills `report` as if the group were the only one. Exceptions pass through;
  /// the report then has the groups so far.
  void add(const SectionName& section, cli::Report& report, const std::function<void()>& body);

  std::size_t size() const;

  /// The ordinary result of the group added last.
  const nlohmann::ordered_json& last() const;

  /// Replaces the report's result by the result of all groups. A parameter that differs between
  /// groups is null in `params`, and each group gets its own "params".
  void write(cli::Report& report) const;

  /// write() if there may be `several` sections; otherwise sets the result of the only one.
  void conclude(bool several, cli::Report& report) const;

 private:
  struct Entry;
  std::vector<Entry> entries_;
};

}  // namespace attn::tools
