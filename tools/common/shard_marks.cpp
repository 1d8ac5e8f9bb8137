#include "common/shard_marks.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "common/json_text.hpp"

namespace attn::tools {
namespace {

constexpr const char* report_group = "report";  // in shard_group

using Json = nlohmann::ordered_json;

Json json_of(const BlockLayout& layout, const std::vector<Index>& blocks) {
  return {{"name", layout.name},          {"shape", layout.shape}, {"axes", layout.axes},
          {"labels", layout.labels},      {"chunk", layout.chunk}, {"padded", layout.padded},
          {"blocks", ranges_text(blocks)}};
}

ProblemShare::Piece piece_of(const Json& json) {
  BlockLayout layout;
  json.at("name").get_to(layout.name);
  json.at("shape").get_to(layout.shape);
  json.at("axes").get_to(layout.axes);
  json.at("labels").get_to(layout.labels);
  json.at("chunk").get_to(layout.chunk);
  json.at("padded").get_to(layout.padded);
  for (const std::size_t axis : layout.axes) static_cast<void>(layout.shape.at(axis));
  const Index count = element_count(layout.positions());
  return {layout, parse_ranges(json.at("blocks").get<std::string>(), count)};
}

void write_divided(const ShardMarks::Divided& divided, io::OutputBundle& group) {
  const ProblemShare& share = divided.problems;
  group.attribute("group", divided.group);
  group.attribute("problems", static_cast<std::int64_t>(share.problems()));
  Json notes = {{"own", ranges_text(share.own())}};
  notes["pieces"] = Json::array();
  for (const auto& piece : share.pieces()) {
    notes["pieces"].push_back(json_of(piece.layout, piece.blocks));
  }
  notes["ranked"] = Json::array();
  for (const auto& ranked : share.ranked()) {
    notes["ranked"].push_back({{"attributes", ranked.attributes}, {"key", ranked.key}});
  }
  group.write_strings("divided", {json_text(notes)});
}

std::optional<ShardMarks::Divided> read_divided(const io::InputBundle& group) {
  const auto problems = group.number_attribute("problems");
  if (!problems) return std::nullopt;
  const Json notes = Json::parse(group.dataset("divided").read_strings().at(0));
  const auto count = static_cast<Index>(*problems);
  ProblemShare share(count, parse_ranges(notes.at("own").get<std::string>(), count));
  for (const Json& piece : notes.at("pieces")) share.add(piece_of(piece));
  for (const Json& ranked : notes.at("ranked")) {
    // A number that is not finite, which is null in JSON, is no rank.
    std::vector<double> key;
    for (const Json& one : ranked.at("key")) {
      key.push_back(one.is_number() ? one.get<double>() : std::numeric_limits<double>::lowest());
    }
    share.rank({ranked.at("attributes").get<std::vector<std::string>>(), std::move(key)});
  }
  return ShardMarks::Divided{group.text_attribute("group").value_or(""), std::move(share)};
}

void write_warnings(const ShardMarks::Warnings& warnings, io::OutputBundle& group) {
  const Json json = {
      {"lines", warnings.lines}, {"unused", warnings.unused}, {"outdated", warnings.outdated}};
  group.write_strings("warnings", {json_text(json)});
}

ShardMarks::Warnings read_warnings(const io::InputBundle& group) {
  const Json json = Json::parse(group.dataset("warnings").read_strings().at(0));
  ShardMarks::Warnings warnings;
  json.at("lines").get_to(warnings.lines);
  json.at("unused").get_to(warnings.unused);
  json.at("outdated").get_to(warnings.outdated);
  return warnings;
}

}  // namespace

bool is_of_shard_marks(const std::string& group) {
  return group == shard_group || group.starts_with(std::string(shard_group) + "/");
}

void write_shard_marks(const ShardMarks& marks, io::OutputBundle& output) {
  io::OutputBundle group = output.group(shard_group);
  group.attribute("number", static_cast<std::int64_t>(marks.shard.number));
  group.attribute("count", static_cast<std::int64_t>(marks.shard.count));
  group.attribute("run", marks.run);
  group.write_strings("groups", marks.groups);
  group.write_strings("own", marks.own);
  group.write_strings("left_out", marks.left_out);
  group.write_strings("removed", marks.removed);
  write_warnings(marks.warnings, group);
  if (marks.divided) write_divided(*marks.divided, group);
  if (marks.report.empty()) return;
  io::OutputBundle notes = output.group(std::string(shard_group) + "/" + report_group);
  write_report_notes(marks.report, notes);
}

ShardMarks read_shard_marks(const io::InputBundle& bundle) {
  const auto refuse = [&]() -> Error {
    return Error(Failure::input, bundle.description() + " is no shard, the output of --shard");
  };
  const std::vector<std::string> groups = bundle.group_names();
  if (std::find(groups.begin(), groups.end(), shard_group) == groups.end()) throw refuse();
  const io::InputBundle group = bundle.group(shard_group);
  const auto number = group.number_attribute("number");
  const auto count = group.number_attribute("count");
  const auto run = group.text_attribute("run");
  if (!number || !count || !run) throw refuse();
  const auto whole = [](double value, double most) {
    return value >= 1 && value <= most && value == std::floor(value);
  };
  if (!whole(*count, most_shards) || !whole(*number, *count)) {
    throw Error(Failure::input, fmt::format("{} is damaged: it is shard {} of {}",
                                            bundle.description(), *number, *count));
  }
  const auto list = [&](const char* name) { return group.dataset(name).read_strings(); };
  std::optional<ShardMarks::Divided> divided;
  std::vector<ReportNotes> report;
  ShardMarks::Warnings warnings;
  try {
    warnings = read_warnings(group);
    divided = read_divided(group);
    const std::vector<std::string> inside = group.group_names();
    if (std::find(inside.begin(), inside.end(), report_group) != inside.end()) {
      report = read_report_notes(group.group(report_group));
    }
  } catch (const Json::exception&) {
    throw refuse();
  } catch (const std::out_of_range&) {
    throw refuse();
  } catch (const Error& error) {
    throw Error(error.failure(), bundle.description() + " is damaged: " + error.what());
  }
  return {.shard = {static_cast<Index>(*number), static_cast<Index>(*count)},
          .run = *run,
          .divided = std::move(divided),
          .groups = list("groups"),
          .own = list("own"),
          .left_out = list("left_out"),
          .removed = list("removed"),
          .report = std::move(report),
          .warnings = std::move(warnings)};
}

std::string path_in(const std::string& group, const std::string& name) {
  return group.empty() ? name : group + "/" + name;
}

std::pair<std::string, std::string> group_and_name(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {"", path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

}  // namespace attn::tools
