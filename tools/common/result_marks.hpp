#pragma once

#include <map>
#include <optional>
#include <string>

#include "common/result_table.hpp"
#include "common/settings.hpp"

namespace attn::tools {

/// A result in a bundle, and what it was made from.
struct Held {
  const ResultFamily* family = nullptr;
  bool marked = false;
  std::map<std::string, std::string> from;  ///< datasets: what tools call them, the stored names
  Settings with;
};

/// Those of `settings` that the result `name` depends on: a scheme's own say nothing about the
/// results of another scheme.
Settings settings_for(const ResultFamily& family, const std::string& name, Settings settings);

/// The text that marks dataset `name`: JSON {"name","tool","from":{"q":"Q",...},"with":{...}}.
std::string mark_text(const Held& result, const std::string& name);

/// What the mark of dataset `name` says. Nothing where it is no mark, names another dataset, from
/// which this one was copied, or a tool that writes no results of that name, is longer than 64 KiB
/// or is nested deeper than a mark.
std::optional<Held> read_mark(const std::string& text, const std::string& name);

/// The tool that a mark names, of whatever dataset; empty where it is no mark.
std::string tool_of_mark(const std::string& text);

}  // namespace attn::tools
