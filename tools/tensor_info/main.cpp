// tensor-info: lists the contents of a bundle.

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/words.hpp"
#include "common/frame/bundles.hpp"
#include "common/process/tool_main.hpp"
#include "common/results/result_marks.hpp"
#include "common/tables/table_options.hpp"
#include "io/contents.hpp"
#include "io/result_mark.hpp"
#include "tensor_info/inventory.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

cli::Declaration declare() {
  cli::Declaration d("tensor-info", "Lists the datasets, attributes and history of a bundle",
                     cli::Role::inspect);
  d.about(
      "Lists every dataset with its shape, type and the range of its finite numbers, counts NaNs "
      "and infinities, and prints the attributes and the commands that made the bundle. Unreadable "
      "objects are marked as such, and the exit status is then 3.");
  d.several_inputs();
  d.flag("brief", "Does not read the numbers: shows no ranges, but is fast for any size.");
  declare_table_options(d, "dataset", {.writes_bundle = false});
  d.column("file, group, dataset", "the INPUT as given, the path of the group, and the name in it")
      .column("shape, dtype", "as printed")
      .column("min, max", "of the finite numbers")
      .column("nan, infinite", "the numbers of NaNs and infinities");
  d.report_member("attributes", "the attributes of the root")
      .report_member("groups", "an array of path and attributes of each group")
      .report_member("datasets",
                     "an array of path, shape, dtype and attributes of each dataset and, unless "
                     "--brief is given, min and max of its finite numbers and the counts nan and "
                     "infinite; unreadable is the reason if a dataset cannot be read")
      .report_member("files",
                     "with several INPUTs, in place of the members above: an array of file and "
                     "these members for each");
  d.example("attn-compute layer3.h5 | tensor-info", "Show the contents of a pipe.");
  d.example("tensor-info dump.h5:/text/wiki/layer0", "Show one group.");
  d.example("tensor-info --tsv run*.h5", "One table of the datasets of several files.");
  d.exit_status(1, "");
  d.exit_status(4, "");
  d.exit_status(5, "");
  return d;
}

std::string value_text(const io::AttributeValue& attribute) {
  return std::visit(
      [&](const auto& held) -> std::string {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, io::AttributeValue::Described>) {
          return "(" + held.text + ")";
        } else {
          const std::string list = fmt::format("{}", fmt::join(held, ", "));
          return attribute.shape.empty() ? list : "[" + list + "]";
        }
      },
      attribute.value);
}

Json value_json(const io::AttributeValue& attribute) {
  return std::visit(
      [&](const auto& held) -> Json {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, io::AttributeValue::Described>) {
          return {{"type", held.text}};
        } else {
          return attribute.shape.empty() ? Json(held.front()) : Json(held);
        }
      },
      attribute.value);
}

Json attributes_json(const std::vector<io::AttributeValue>& attributes) {
  Json json = Json::object();
  for (const auto& attribute : attributes) json[attribute.name] = value_json(attribute);
  return json;
}

std::string attribute_lines(const std::vector<io::AttributeValue>& attributes,
                            const std::string& indent) {
  std::string text;
  for (const auto& attribute : attributes) {
    // These attributes are shown elsewhere.
    if (attribute.name == "history" || attribute.name == axis_labels ||
        attribute.name == io::result_mark) {
      continue;
    }
    text += indent + cli::one_line(attribute.name + "  " + value_text(attribute)) + "\n";
  }
  return text;
}

// The commands, newest first.
std::string history_lines(const std::vector<io::AttributeValue>& attributes) {
  std::string text;
  for (const auto& attribute : attributes) {
    const auto* values = std::get_if<std::vector<std::string>>(&attribute.value);
    if (attribute.name != "history" || values == nullptr) continue;
    std::string_view rest = values->front();
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      text += "  " + cli::one_line(rest.substr(0, end)) + "\n";
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return text.empty() ? "" : "history\n" + text;
}

// Names of results by the tool that marked them, "attn-compute: out, weights"; each name once, even
// if it occurs in several groups.
std::string result_lines(const std::vector<Inventory::Entry>& entries) {
  std::map<std::string, std::set<std::string>> by_tool;
  for (const Inventory::Entry& entry : entries) {
    for (const auto& attribute : entry.item.attributes) {
      const auto* values = std::get_if<std::vector<std::string>>(&attribute.value);
      if (attribute.name != io::result_mark || values == nullptr) continue;
      const std::string tool = tool_of_mark(values->front());
      const std::string& path = entry.item.path;
      if (!tool.empty()) by_tool[tool].insert(path.substr(path.rfind('/') + 1));
    }
  }
  std::string text;
  for (const auto& [tool, names] : by_tool) {
    text += "  " + cli::one_line(fmt::format("{}: {}", tool, fmt::join(names, ", "))) + "\n";
  }
  return text.empty() ? "" : "results\n" + text;
}

// The group of a dataset, and its name in the group.
std::pair<std::string, std::string> split_path(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {"", path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

// A dataset of an INPUT.
struct Listed {
  std::string file;
  const Inventory::Entry& entry;
};

const Figures<Listed>& figures() {
  using Of = const Listed&;
  const auto ranged = [](auto value) {
    return [value](Of of) { return of.entry.range ? value(*of.entry.range) : Cell(); };
  };
  const auto finite = [&](double ValueRange::*end) {
    return ranged(
        [end](const ValueRange& range) { return range.finite() > 0 ? Cell(range.*end) : Cell(); });
  };
  static const Figures<Listed> all = {
      {"file", [](Of of) { return of.file; }, false},
      {"group", [](Of of) { return split_path(of.entry.item.path).first; }},
      {"dataset", [](Of of) { return split_path(of.entry.item.path).second; }},
      {"shape", [](Of of) { return to_string(of.entry.item.shape); }},
      {"dtype", [](Of of) { return of.entry.item.type; }},
      {"min", finite(&ValueRange::min)},
      {"max", finite(&ValueRange::max)},
      {"nan", ranged([](const ValueRange& range) { return Cell(range.nan); })},
      {"infinite", ranged([](const ValueRange& range) { return Cell(range.infinite); })}};
  return all;
}

Json item_json(const Inventory::Entry& entry) {
  Json json;
  json["path"] = entry.item.path;
  json["shape"] = entry.item.shape;
  json["dtype"] = entry.item.type;
  json["attributes"] = attributes_json(entry.item.attributes);
  if (!entry.item.unreadable.empty()) json["unreadable"] = entry.item.unreadable;
  if (entry.range) {
    add_members(figures(), Listed{"", entry}, {"min", "max", "nan", "infinite"}, json);
  }
  return json;
}

std::string listing(const io::InputBundle& bundle,
                    const std::vector<io::AttributeValue>& attributes, const Inventory& inventory) {
  std::string text = cli::one_line(bundle.description()) + "\n" +
                     attribute_lines(attributes, "  ") + history_lines(attributes) +
                     inventory.table() + result_lines(inventory.entries());
  for (const Inventory::Entry& entry : inventory.entries()) {
    const std::string lines = attribute_lines(entry.item.attributes, "  ");
    if (!lines.empty()) text += cli::one_line(entry.item.path) + "\n" + lines;
  }
  return text;
}

Json inventory_json(const std::vector<io::AttributeValue>& attributes, const Inventory& inventory) {
  Json json;
  json["attributes"] = attributes_json(attributes);
  json["groups"] = Json::array();
  json["datasets"] = Json::array();
  for (const Inventory::Entry& entry : inventory.entries()) {
    if (!entry.item.is_group) {
      json["datasets"].push_back(item_json(entry));
      continue;
    }
    Json group = {{"path", entry.item.path},
                  {"attributes", attributes_json(entry.item.attributes)}};
    if (!entry.item.unreadable.empty()) group["unreadable"] = entry.item.unreadable;
    json["groups"].push_back(std::move(group));
  }
  return json;
}

cli::Outcome run(const cli::Arguments& arguments, cli::Report& report) {
  TableOutput table(arguments, columns_of(figures()), {.writes_bundle = false});
  // Without INPUT there are only datasets of -i.
  std::vector<std::optional<std::string>> names(arguments.inputs.begin(), arguments.inputs.end());
  if (names.empty()) names.emplace_back();
  std::vector<io::InputBundle> bundles;
  for (const auto& name : names) bundles.push_back(open_one_input(arguments, name, report));

  cli::Outcome outcome;
  std::string text;
  for (std::size_t n = 0; n < bundles.size(); ++n) {
    const std::vector<io::AttributeValue> attributes = io::root_attributes(bundles[n]);
    const Inventory inventory(arguments, bundles[n], !arguments.flag("brief"));
    for (const Inventory::Entry& entry : inventory.entries()) {
      if (entry.item.is_group) continue;
      table.add(cells_of(figures(), Listed{names[n].value_or(""), entry}));
    }
    text += (n > 0 ? "\n" : "") + listing(bundles[n], attributes, inventory);
    Json json = inventory_json(attributes, inventory);
    if (bundles.size() > 1) {
      Json file = {{"file", *names[n]}};
      file.update(json);
      report.result()["files"].push_back(std::move(file));
    } else {
      report.result() = std::move(json);
    }
    const auto why = inventory.unreadable();
    if (why && !outcome.failure) outcome.failure = Error(Failure::input, *why);
  }
  table.print(report);
  if (!table.in_place_of_text()) report.print(text);
  outcome.commit = table.commit();
  return outcome;
}

}  // namespace
}  // namespace attn::tools

int main(int argc, char** argv) {
  return attn::tools::tool_main(argc, argv, attn::tools::declare(), attn::tools::run);
}
