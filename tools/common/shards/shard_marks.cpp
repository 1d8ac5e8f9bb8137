#include "common/shards/shard_marks.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "cli/words.hpp"
#include "common/costs/block_plan.hpp"
#include "common/shards/checked_notes.hpp"
#include "common/shards/json_text.hpp"

namespace attn::tools {
namespace {

constexpr const char* report_group = "report";  // in shard_group
constexpr int shard_format = 2;                 // of the marks; the first had no number

using Json = nlohmann::ordered_json;

Json json_of(const BlockLayout& layout, const std::vector<Index>& blocks) {
  return {{"name", layout.name},          {"shape", layout.shape}, {"axes", layout.axes},
          {"labels", layout.labels},      {"chunk", layout.chunk}, {"padded", layout.padded},
          {"blocks", ranges_text(blocks)}};
}

// For lists with one note per axis; some may be shorter than the number of axes.
void require_axes(bool holds, const CheckedJson& json, const BlockLayout& layout) {
  if (holds) return;
  throw json.refused("a list that fits the " + cli::counted(layout.shape.size(), "axis", "axes") +
                     " of " + layout.name);
}

// Reads lists of numbers of one shard.
struct ListReader {
  std::string shard;
  ListMemory& memory;

  std::vector<Index> ranges(const CheckedJson& json, Index limit, Index most) const {
    const std::string text = json.text();
    Index count = most + 1;
    try {
      count = count_in_ranges(text, limit);
    } catch (const Error&) {
    }
    if (count > most) {
      throw json.refused(fmt::format("ranges of at most {} numbers below {}", most, limit));
    }
    memory.taken += count * static_cast<Index>(sizeof(Index));
    require_memory("the list of problems of the shards up to " + shard, memory.taken,
                   memory.allowed);
    return parse_ranges(text, limit);
  }
};

ProblemShare::Piece piece_of(const CheckedJson& json, Index problems, const ListReader& lists) {
  BlockLayout layout;
  layout.name = json.at("name").text();
  if (layout.name.empty() || is_of_shard_marks(layout.name)) {
    throw json.at("name").refused("the name of a result");
  }
  layout.shape = json.at("shape").shape();
  const std::size_t rank = layout.shape.size();
  for (const CheckedJson& axis : json.at("axes").list()) {
    const auto next = static_cast<std::size_t>(axis.count());
    require_axes(next < rank && (layout.axes.empty() || next > layout.axes.back()), json.at("axes"),
                 layout);
    layout.axes.push_back(next);
  }
  layout.labels = json.at("labels").texts();
  require_axes(layout.labels.size() <= rank, json.at("labels"), layout);
  for (const CheckedJson& length : json.at("chunk").list()) layout.chunk.push_back(length.count());
  require_axes(layout.chunk.empty() || layout.chunk.size() == rank, json.at("chunk"), layout);
  layout.padded = json.at("padded").flag();
  // A problem has one block at most.
  const Index count = element_count(layout.positions());
  return {layout, lists.ranges(json.at("blocks"), count, problems)};
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

std::optional<ShardMarks::Divided> read_divided(const CheckedGroup& group,
                                                const ListReader& lists) {
  if (!group.bundle().number_attribute("problems")) return std::nullopt;
  const Index problems = group.whole_number("problems", 0, most_problems);
  const CheckedJson notes = group.json("divided");
  ProblemShare share(problems, lists.ranges(notes.at("own"), problems, problems));
  std::set<std::string> names;
  for (const CheckedJson& json : notes.at("pieces").list()) {
    ProblemShare::Piece piece = piece_of(json, problems, lists);
    if (!names.insert(piece.layout.name).second) throw json.at("name").refused("another name");
    share.add(std::move(piece));
  }
  for (const CheckedJson& ranked : notes.at("ranked").list()) {
    // A number that is not finite, which is null in JSON, is no rank.
    std::vector<double> key;
    for (const CheckedJson& one : ranked.at("key").list()) {
      key.push_back(one.is_null() ? std::numeric_limits<double>::lowest() : one.number());
    }
    share.rank({ranked.at("attributes").texts(), std::move(key)});
  }
  return ShardMarks::Divided{group.text_attribute("group"), std::move(share)};
}

void write_warnings(const ShardMarks::Warnings& warnings, io::OutputBundle& group) {
  Json json = {
      {"own", Json::array()}, {"unused", warnings.unused}, {"outdated", warnings.outdated}};
  for (const cli::Report::OwnWarning& warning : warnings.own) {
    Json one = {{"line", warning.line}};
    if (warning.problem) one["problem"] = *warning.problem;
    if (!warning.kind.empty())
      one["largest"] = {{"kind", warning.kind}, {"figure", warning.figure}};
    json["own"].push_back(std::move(one));
  }
  group.write_strings("warnings", {json_text(json)});
}

ShardMarks::Warnings read_warnings(const CheckedGroup& group) {
  const CheckedJson json = group.json("warnings");
  ShardMarks::Warnings warnings;
  for (const CheckedJson& one : json.at("own").list()) {
    cli::Report::OwnWarning warning{one.at("line").text()};
    if (one.has("problem")) warning.problem = one.at("problem").count();
    if (one.has("largest")) {
      warning.kind = one.at("largest").at("kind").text();
      warning.figure = one.at("largest").at("figure").number_or_nan();
    }
    warnings.own.push_back(std::move(warning));
  }
  warnings.unused = json.at("unused").texts();
  for (const CheckedJson& pair : json.at("outdated").list()) {
    const std::vector<CheckedJson> texts = pair.list(2);
    warnings.outdated.emplace(texts[0].text(), texts[1].text());
  }
  return warnings;
}

Error damaged(const CheckedGroup& group, const std::string& name, const std::string& why) {
  return Error(Failure::input, group.place(name) + " is damaged: " + why);
}

// Groups of a run, each once.
void require_groups(const ShardMarks& marks, const CheckedGroup& group) {
  const std::set<std::string> all(marks.groups.begin(), marks.groups.end());
  const std::set<std::string> own(marks.own.begin(), marks.own.end());
  if (all.size() != marks.groups.size() || own.size() != marks.own.size()) {
    throw damaged(group, all.size() != marks.groups.size() ? "groups" : "own",
                  "it has a group twice");
  }
  for (const std::string& name : marks.groups) {
    if (is_of_shard_marks(name)) throw damaged(group, "groups", name + " is no group of results");
  }
  for (const std::string& name : marks.own) {
    if (all.count(name) == 0) throw damaged(group, "own", name + " is no group of the run");
  }
}

// Paths GROUP/NAME in the own groups.
void require_paths(const ShardMarks& marks, const std::vector<std::string>& paths,
                   const std::string& list, const CheckedGroup& group) {
  std::set<std::string> own(marks.own.begin(), marks.own.end());
  if (marks.divided) own.insert(marks.divided->group);
  for (const std::string& path : paths) {
    bool found = own.count("") > 0;
    for (std::size_t at = path.find('/'); !found && at != std::string::npos;
         at = path.find('/', at + 1)) {
      found = own.count(path.substr(0, at)) > 0;
    }
    if (!found) throw damaged(group, list, path + " is in no group of the shard");
  }
}

void require_report(const ShardMarks& marks, const CheckedGroup& group) {
  if (marks.report.empty()) return;
  std::vector<std::string> sections = marks.own;
  if (marks.divided) sections.assign(marks.divided->problems.size() > 0, marks.divided->group);
  std::vector<std::string> found;
  std::size_t warnings = 0;
  for (const ReportNotes& notes : marks.report) {
    found.push_back(notes.group);
    if (notes.warnings < warnings) throw damaged(group, report_group, "its warnings do not ascend");
    warnings = notes.warnings;
  }
  if (found != sections)
    throw damaged(group, report_group, "its groups are not those of the shard");
}

}  // namespace

bool is_of_shard_marks(const std::string& group) {
  return group == shard_group || group.starts_with(std::string(shard_group) + "/");
}

void write_shard_marks(const ShardMarks& marks, io::OutputBundle& output) {
  io::OutputBundle group = output.group(shard_group);
  group.attribute("format", static_cast<std::int64_t>(shard_format));
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

ShardMarks read_shard_marks(const io::InputBundle& bundle, ListMemory& memory) {
  const auto refuse = [&]() -> Error {
    return Error(Failure::input, bundle.description() + " is no shard, the output of --shard");
  };
  const std::vector<std::string> groups = bundle.group_names();
  if (std::find(groups.begin(), groups.end(), shard_group) == groups.end()) throw refuse();
  const CheckedGroup group(bundle.group(shard_group));
  const auto number = group.bundle().number_attribute("number");
  const auto count = group.bundle().number_attribute("count");
  if (!number || !count) throw refuse();
  if (group.bundle().number_attribute("format") != shard_format) {
    throw Error(Failure::input,
                bundle.description() + " is a shard of another version of these tools",
                "run its command again, with this version");
  }
  const auto whole = [](double value, double most) {
    return value >= 1 && value <= most && value == std::floor(value);
  };
  if (!whole(*count, most_shards) || !whole(*number, *count)) {
    throw Error(Failure::input, fmt::format("{} is damaged: it is shard {} of {}",
                                            bundle.description(), *number, *count));
  }
  ShardMarks marks{.shard = {static_cast<Index>(*number), static_cast<Index>(*count)},
                   .run = group.text_attribute("run"),
                   .divided = read_divided(group, {bundle.description(), memory}),
                   .groups = group.texts("groups"),
                   .own = group.texts("own"),
                   .left_out = group.texts("left_out"),
                   .removed = group.texts("removed"),
                   .report = {},
                   .warnings = read_warnings(group)};
  const std::vector<std::string> inside = group.bundle().group_names();
  if (std::find(inside.begin(), inside.end(), report_group) != inside.end()) {
    marks.report = read_report_notes(group.group(report_group), marks.warnings.own.size());
  }
  require_groups(marks, group);
  require_paths(marks, marks.left_out, "left_out", group);
  require_paths(marks, marks.removed, "removed", group);
  require_report(marks, group);
  return marks;
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
