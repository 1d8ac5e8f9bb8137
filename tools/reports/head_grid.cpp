#include "reports/head_grid.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "common/tables/column_text.hpp"

namespace attn::tools {
namespace {

constexpr std::size_t table_width = 100;
constexpr std::size_t cell_width = 8;
constexpr std::size_t label_width = 28;  // unless longer labels are needed to tell groups apart

// The end of a long name is more informative than its beginning.
std::string shortened(const std::string& text, std::size_t width) {
  if (characters(text) <= width) return text;
  std::size_t start = text.size();
  for (std::size_t left = width - 1; left > 0; --left) {
    do {
      --start;
    } while ((static_cast<unsigned char>(text[start]) & 0xC0U) == 0x80U);
  }
  return "~" + text.substr(start);
}

std::string cell(const std::string& text) { return fmt::format("{:>{}}", text, cell_width); }

// A line without spaces at its end.
std::string trimmed_line(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

}  // namespace

std::string common_beginning(const std::vector<std::string>& names) {
  std::string common = names.front();
  for (const std::string& label : names) {
    const auto [end, other] =
        std::mismatch(common.begin(), common.end(), label.begin(), label.end());
    static_cast<void>(other);
    common.erase(end, common.end());
  }
  const std::size_t slash = common.rfind('/');
  return slash == std::string::npos ? "" : common.substr(0, slash + 1);
}

std::vector<std::string> group_labels(const std::vector<std::string>& names) {
  const std::size_t beginning = common_beginning(names).size();
  std::vector<std::string> rest;
  std::size_t longest = label_width;
  for (const std::string& name : names) {
    rest.push_back(printable(name.substr(beginning), name.size()));
    longest = std::max(longest, characters(rest.back()));
  }
  const std::size_t distinct = std::set<std::string>(rest.begin(), rest.end()).size();
  for (std::size_t width = label_width;; ++width) {
    std::vector<std::string> labels;
    for (const std::string& name : rest) labels.push_back(shortened(name, width));
    const std::set<std::string> different(labels.begin(), labels.end());
    if (different.size() == distinct || width == longest) return labels;
  }
}

std::string head_grid(const std::string& title, const std::vector<GridRow>& rows) {
  std::size_t width = 8;
  std::set<Index> numbers;
  for (const GridRow& row : rows) {
    width = std::max(width, characters(row.label) + 1);
    for (const auto& [number, head] : row.heads) numbers.insert(number);
  }
  const std::vector<Index> columns(numbers.begin(), numbers.end());
  const std::size_t count = columns.size();
  const std::size_t room = table_width > width ? (table_width - width) / cell_width : 0;
  const std::size_t at_once = std::max<std::size_t>(2, room) - 1;  // and "all"
  std::string text = title + "\n";
  for (std::size_t first = 0; first < count; first += at_once) {
    const std::size_t last = std::min(count, first + at_once);
    const bool ends = last == count;
    if (first > 0) text += "\n";
    std::string heading = padded(first == 0 ? "group" : "", width);
    for (std::size_t head = first; head < last; ++head) {
      heading += cell(fmt::format("head {}", columns[head]));
    }
    text += heading + (ends ? cell("all") + "\n" : "\n");
    for (const GridRow& row : rows) {
      std::string line = padded(row.label, width);
      for (std::size_t head = first; head < last; ++head) {
        const auto found = row.heads.find(columns[head]);
        line += cell(found == row.heads.end() ? "" : found->second);
      }
      text += trimmed_line(line + (ends ? cell(row.all) : ""));
    }
  }
  return text;
}

}  // namespace attn::tools
