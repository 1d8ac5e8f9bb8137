#include <algorithm>

#include "attnkit/error.hpp"
#include "cli/parse.hpp"
#include "cli/report_impl.hpp"
#include "cli/terminal.hpp"
#include "cli/values.hpp"
#include "cli/words.hpp"
#include "system/peak_memory.hpp"

namespace attn::cli {
namespace {

// Indents objects and arrays of objects. An array of numbers or strings is one line, because shapes
// and histograms would fill a screen otherwise.
void append(const nlohmann::ordered_json& json, std::size_t indent, std::string& text) {
  const bool nested =
      std::any_of(json.begin(), json.end(), [](const auto& item) { return item.is_structured(); });
  if (json.empty() || !json.is_structured() || (json.is_array() && !nested)) {
    // File names may be invalid UTF-8, which JSON must not contain.
    text += json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    return;
  }
  const char* separator = "";
  text += json.is_object() ? '{' : '[';
  for (const auto& [key, value] : json.items()) {
    text += separator;
    text += '\n';
    text.append(indent + 2, ' ');
    if (json.is_object()) {
      append(key, 0, text);
      text += ": ";
    }
    append(value, indent + 2, text);
    separator = ",";
  }
  text += '\n';
  text.append(indent, ' ');
  text += json.is_object() ? '}' : ']';
}

}  // namespace

std::string json_text(const Report::Impl& report, int outcome, const Failed* failed,
                      double wall_seconds, int threads) {
  nlohmann::ordered_json json;
  json["schema"] = "attnkit/1";
  json["tool"] = report.tool;
  json["version"] = version();
  if (!report.status.empty()) {
    json["status"] = report.status;
  } else {
    json["status"] = failed != nullptr ? "error" : (outcome == 0 ? "ok" : "no");
  }
  if (failed != nullptr) {
    json["error"] = {{"message", failed->message}, {"hint", failed->hint}, {"exit", failed->exit}};
  }
  json["inputs"] = report.inputs;
  json["outputs"] = report.outputs;
  if (!report.sources.empty()) json["sources"] = report.sources;
  json["params"] = report.params;
  json["result"] = report.result;
  json["runtime"] = {{"wall_s", wall_seconds},
                     {"compute_s", report.compute_seconds},
                     {"peak_rss_bytes", peak_rss_bytes()},
                     {"threads", threads}};
  if (!report.ranks.empty()) json["runtime"]["ranks"] = report.ranks;
  json["warnings"] = report.warnings;
  std::string text;
  append(json, 0, text);
  return printing_json(text) + "\n";
}

}  // namespace attn::cli
