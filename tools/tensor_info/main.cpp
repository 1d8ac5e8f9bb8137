// tensor-info: what is in a bundle.

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/words.hpp"
#include "common/bundles.hpp"
#include "common/result_marks.hpp"
#include "io/contents.hpp"
#include "io/result_mark.hpp"
#include "tensor_info/inventory.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

cli::Declaration declare() {
  cli::Declaration d("tensor-info", "Says what is in a bundle: datasets, attributes, history",
                     cli::Role::inspect);
  d.about(
      "Lists every dataset with its shape, type and the range of its finite numbers, counts NaNs "
      "and "
      "infinities, and prints the attributes and the commands that made the bundle. What cannot be "
      "read is listed as unreadable, and the exit status is then 3.");
  d.flag("brief", "Do not read the numbers: no ranges, at once whatever the size.");
  d.report_member("attributes", "the attributes of the root")
      .report_member("groups", "an array of path and attributes of each group")
      .report_member("datasets",
                     "an array of path, shape, dtype and attributes of each dataset and, unless "
                     "--brief is given, min and max of its finite numbers and the counts nan and "
                     "infinite; unreadable is the reason why one cannot be read");
  d.example("attn-compute layer3.h5 | tensor-info", "what goes through the pipe?");
  d.example("tensor-info dump.h5:/text/wiki/layer0", "one group");
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
    // Shown elsewhere.
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

// Names of results by the tool that has marked them, "attn-compute: out, weights"; of those in
// several groups each once.
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

Json item_json(const Inventory::Entry& entry) {
  Json json;
  json["path"] = entry.item.path;
  json["shape"] = entry.item.shape;
  json["dtype"] = entry.item.type;
  json["attributes"] = attributes_json(entry.item.attributes);
  if (!entry.item.unreadable.empty()) json["unreadable"] = entry.item.unreadable;
  if (!entry.range) return json;
  const bool any = entry.range->finite() > 0;
  json["min"] = any ? Json(entry.range->min) : Json();
  json["max"] = any ? Json(entry.range->max) : Json();
  json["nan"] = entry.range->nan;
  json["infinite"] = entry.range->infinite;
  return json;
}

cli::Outcome run(const cli::Arguments& arguments, cli::Report& report) {
  const io::InputBundle bundle = open_input(arguments, report);
  const std::vector<io::AttributeValue> attributes = io::root_attributes(bundle);
  const Inventory inventory(arguments, bundle, !arguments.flag("brief"));

  report.print(bundle.description() + "\n");
  report.print(attribute_lines(attributes, "  "));
  report.print(history_lines(attributes));
  report.print(inventory.table());
  report.print(result_lines(inventory.entries()));
  for (const Inventory::Entry& entry : inventory.entries()) {
    const std::string lines = attribute_lines(entry.item.attributes, "  ");
    if (!lines.empty()) report.print(cli::one_line(entry.item.path) + "\n" + lines);
  }

  Json& result = report.result();
  result["attributes"] = attributes_json(attributes);
  result["groups"] = Json::array();
  result["datasets"] = Json::array();
  for (const Inventory::Entry& entry : inventory.entries()) {
    if (entry.item.is_group) {
      Json group = {{"path", entry.item.path},
                    {"attributes", attributes_json(entry.item.attributes)}};
      if (!entry.item.unreadable.empty()) group["unreadable"] = entry.item.unreadable;
      result["groups"].push_back(std::move(group));
    } else {
      result["datasets"].push_back(item_json(entry));
    }
  }
  cli::Outcome outcome;
  if (const auto why = inventory.unreadable()) {
    outcome.failure = Error(Failure::input, *why);
  }
  return outcome;
}

}  // namespace
}  // namespace attn::tools

int main(int argc, char** argv) {
  return attn::tools::tool_main(argc, argv, attn::tools::declare(), attn::tools::run);
}
