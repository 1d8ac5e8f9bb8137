#pragma once

#include <map>
#include <optional>
#include <string>

#include "common/results/result_table.hpp"
#include "common/results/settings.hpp"

namespace attn::tools {

/// A result in a bundle, and the inputs and settings that it depends on.
struct Held {
  const ResultFamily* family = nullptr;
  bool marked = false;
  std::map<std::string, std::string> from;  ///< datasets: from the tool's names to the stored names
  Settings with;
};

/// The part of `settings` that the result `name` depends on: settings of one scheme do not affect
/// the results of another.
Settings settings_for(const ResultFamily& family, const std::string& name, Settings settings);

/// The text that marks dataset `name`: JSON {"name","tool","from":{"q":"Q",...},"with":{...}}.
std::string mark_text(const Held& result, const std::string& name);

/// Parses the mark of dataset `name`. Empty if the text is not a mark, is the mark of another
/// dataset from which this one was copied, names a tool that writes no results of that name, is
/// longer than 64 KiB or is nested deeper than a mark.
std::optional<Held> read_mark(const std::string& text, const std::string& name);

/// The tool that a mark names, for any dataset; empty if the text is not a mark.
std::string tool_of_mark(const std::string& text);

}  // namespace attn::tools
