#include "tensor_join/warning_join.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "tensor/shape.hpp"

namespace attn::tools {
namespace {

using OwnWarning = cli::Report::OwnWarning;

// Adds lines in order: a missing line is placed before the next line that is present.
void merge(const std::vector<std::string>& lines, std::vector<std::string>& all) {
  auto next = all.end();
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    const auto found = std::find(all.begin(), all.end(), *line);
    next = found == all.end() ? all.insert(next, *line) : found;
  }
}

}  // namespace

std::vector<std::string> joined_warnings(const std::vector<std::vector<OwnWarning>>& shards) {
  std::vector<std::string> all;
  std::multimap<Index, std::string> of_problems;
  std::vector<OwnWarning> largest;
  for (const std::vector<OwnWarning>& shard : shards) {
    std::vector<std::string> plain;
    for (const OwnWarning& warning : shard) {
      if (warning.problem) {
        of_problems.emplace(*warning.problem, warning.line);
      } else if (warning.kind.empty()) {
        plain.push_back(warning.line);
      } else {
        const auto same =
            std::find_if(largest.begin(), largest.end(),
                         [&](const OwnWarning& other) { return other.kind == warning.kind; });
        if (same == largest.end()) {
          largest.push_back(warning);
        } else if (same->figure < warning.figure) {
          *same = warning;
        }
      }
    }
    merge(plain, all);
  }
  for (auto& [problem, line] : of_problems) all.push_back(std::move(line));
  for (OwnWarning& warning : largest) all.push_back(std::move(warning.line));
  return all;
}

}  // namespace attn::tools
