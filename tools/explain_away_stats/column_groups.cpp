#include "explain_away_stats/column_groups.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "common/column_text.hpp"

namespace attn::tools {
namespace {

constexpr std::size_t table_width = 100;
constexpr std::size_t cell_width = 8;
constexpr std::size_t label_width = 28;  // maximum

// The figures of a cell; cells are pooled into those of whole rows and columns.
struct Cell {
  Index keys = 0;
  Index explained = 0;  // keys below the first epsilon
  double least = std::numeric_limits<double>::infinity();

  void add(const Cell& more) {
    keys += more.keys;
    explained += more.explained;
    least = std::min(least, more.least);
  }

  std::string text() const {
    if (keys == 0) return "-";
    if (explained == 0) return number(least);
    const double share = 100 * static_cast<double>(explained) / static_cast<double>(keys);
    // A few must not be shown as none.
    return share < 0.05 ? "<0.1%" : fmt::format("{:.1f}%", share);
  }
};

Cell cell_of(const ColumnSumSummary& sums) {
  Cell cell;
  cell.keys = sums.keys;
  if (!sums.explained_away.empty()) cell.explained = sums.explained_away.front().count;
  if (sums.keys > 0) cell.least = sums.min;
  return cell;
}

// The common prefix "text/wiki/" of text/wiki/layer0 and text/wiki/layer1: whole levels only.
std::string common_beginning(const std::vector<GroupColumns>& groups) {
  std::string common = groups.front().group;
  for (const GroupColumns& group : groups) {
    const auto [end, other] =
        std::mismatch(common.begin(), common.end(), group.group.begin(), group.group.end());
    static_cast<void>(other);
    common.erase(end, common.end());
  }
  const std::size_t slash = common.rfind('/');
  return slash == std::string::npos ? "" : common.substr(0, slash + 1);
}

// The end of a long name is more informative than its beginning.
std::string label_of(const std::string& name) {
  std::string text = printable(name, name.size());
  if (characters(text) <= label_width) return text;
  std::size_t start = text.size();
  for (std::size_t left = label_width - 1; left > 0; --left) {
    do {
      --start;
    } while ((static_cast<unsigned char>(text[start]) & 0xC0U) == 0x80U);
  }
  return "~" + text.substr(start);
}

class Table {
 public:
  Table(const std::vector<GroupColumns>& groups, std::string scheme) : scheme_(std::move(scheme)) {
    const std::size_t beginning = common_beginning(groups).size();
    const GroupColumns* widest = &groups.front();
    for (const GroupColumns& group : groups) {
      const auto found = std::find(group.schemes.begin(), group.schemes.end(), scheme_);
      if (found == group.schemes.end()) continue;
      const auto& summaries =
          group.summaries.schemes[static_cast<std::size_t>(found - group.schemes.begin())];
      Row row{label_of(group.group.substr(beginning)), {}, {}};
      for (const SchemeSummaryOf& head : summaries.heads) {
        row.heads.push_back(cell_of(head.sums));
        row.all.add(row.heads.back());
      }
      if (element_count(group.leading) > element_count(widest->leading)) widest = &group;
      same_axes_ = same_axes_ && group.leading == groups.front().leading;
      add(row);
      rows_.push_back(std::move(row));
    }
    rows_.push_back(all_);
    for (const Row& row : rows_) width_ = std::max(width_, characters(row.label) + 1);
    for (std::size_t head = 0; head < all_.heads.size(); ++head) {
      const auto index = static_cast<Index>(head);
      heads_.push_back(same_axes_ ? head_label(widest->leading, index) : std::to_string(head));
    }
  }

  const Cell& all() const { return all_.all; }

  std::string text() const {
    std::string text;
    const std::size_t at_once =
        std::max<std::size_t>(1, (table_width - width_) / cell_width - 1);  // and "all"
    const std::size_t count = heads_.size();
    for (std::size_t first = 0; first < count; first += at_once) {
      const std::size_t last = std::min(count, first + at_once);
      const bool ends = last == count;
      if (first > 0) text += "\n";
      text += padded(first == 0 ? scheme_ : "", width_);
      for (std::size_t head = first; head < last; ++head) text += cell(heads_[head]);
      text += ends ? cell("all") + "\n" : "\n";
      for (const Row& row : rows_) text += line(row, first, last, ends);
    }
    return text;
  }

 private:
  struct Row {
    std::string label;
    std::vector<Cell> heads;
    Cell all;
  };

  void add(const Row& row) {
    if (all_.heads.size() < row.heads.size()) all_.heads.resize(row.heads.size());
    for (std::size_t head = 0; head < row.heads.size(); ++head) {
      all_.heads[head].add(row.heads[head]);
    }
    all_.all.add(row.all);
  }

  static std::string cell(const std::string& text) {
    return fmt::format("{:>{}}", text, cell_width);
  }

  std::string line(const Row& row, std::size_t first, std::size_t last, bool ends) const {
    std::string text = padded(row.label, width_);
    for (std::size_t head = first; head < last; ++head) {
      text += cell(head < row.heads.size() ? row.heads[head].text() : "");
    }
    if (ends) text += cell(row.all.text());
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  }

  std::string scheme_;
  bool same_axes_ = true;
  std::size_t width_ = 8;
  std::vector<Row> rows_;
  Row all_{"all", {}, {}};
  std::vector<std::string> heads_;
};

std::vector<std::string> schemes_of(const std::vector<GroupColumns>& groups) {
  std::vector<std::string> all;
  for (const GroupColumns& group : groups) {
    for (const std::string& scheme : group.schemes) {
      if (std::find(all.begin(), all.end(), scheme) == all.end()) all.push_back(scheme);
    }
  }
  return all;
}

}  // namespace

std::string groups_report(const std::vector<GroupColumns>& groups, const SummaryOptions& options) {
  const std::string epsilon = compact(options.epsilons.front());
  const std::string beginning = common_beginning(groups);
  std::string text = fmt::format(
      "{} groups{}\n\nshare of keys with c < {}, or the least c if there are none, by group and "
      "head\n",
      groups.size(),
      beginning.empty() ? "" : ", names below " + printable(beginning, beginning.size()), epsilon);
  std::string conclusion;
  for (const std::string& scheme : schemes_of(groups)) {
    const Table table(groups, scheme);
    text += "\n" + table.text();
    const Cell& all = table.all();
    const std::string share =
        all.explained == 0 ? "none" : fmt::format("{} of {} keys", all.explained, all.keys);
    conclusion += conclusion.empty()
                      ? fmt::format("{} explains away {} (c < {})", scheme, share, epsilon)
                      : fmt::format(", {} {}", scheme, share);
  }
  return text + "\n" + conclusion + ".\n";
}

}  // namespace attn::tools
