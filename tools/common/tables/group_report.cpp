#include "common/tables/group_report.hpp"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "cli/words.hpp"

namespace attn::tools {

using Json = nlohmann::ordered_json;

struct GroupReport::Entry {
  SectionName section;
  Json params;
  Json result;
};

GroupReport::GroupReport() = default;
GroupReport::~GroupReport() = default;

std::size_t GroupReport::size() const { return entries_.size(); }

const Json& GroupReport::last() const { return entries_.back().result; }

void GroupReport::add(const SectionName& section, cli::Report& report,
                      const std::function<void()>& body) {
  report.result() = Json::object();
  const auto keep = [&] {
    entries_.push_back({section, report.params(), std::exchange(report.result(), Json::object())});
  };
  try {
    body();
  } catch (...) {
    // The partial result stays in the report, under the group's name.
    if (!section.label.empty() && !report.result().empty()) {
      keep();
      write(report);
    }
    throw;
  }
  keep();
}

void GroupReport::write(cli::Report& report) const {
  const auto differs = [&](const std::string& key) {
    return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
      return entry.params.value(key, Json()) != entries_.front().params.value(key, Json());
    });
  };
  std::vector<std::string> own;
  for (auto& [key, value] : report.params().items()) {
    if (!differs(key)) continue;
    own.push_back(key);
    value = nullptr;
  }
  Json groups = Json::array();
  for (const Entry& entry : entries_) {
    Json json = Json::object();
    // The label differs from the group if there are several files.
    if (entry.section.label != cli::one_line(entry.section.group))
      json["file"] = entry.section.file;
    json["group"] = entry.section.group;
    for (const std::string& key : own) json["params"][key] = entry.params.value(key, Json());
    json.update(entry.result);
    groups.push_back(std::move(json));
  }
  report.result() = Json::object();
  report.result()["groups"] = std::move(groups);
}

void GroupReport::conclude(bool several, cli::Report& report) const {
  if (several) {
    write(report);
  } else {
    report.result() = last();
  }
}

}  // namespace attn::tools
