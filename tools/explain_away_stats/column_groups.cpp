#include "explain_away_stats/column_groups.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "common/column_text.hpp"
#include "explain_away_stats/column_lists.hpp"

namespace attn::tools {
namespace {

constexpr std::size_t table_width = 100;
constexpr std::size_t cell_width = 8;
constexpr std::size_t label_width = 28;  // maximum

// The figures of one cell of every table; cells are pooled into those of whole rows and columns.
struct Pool {
  Index keys = 0;
  std::vector<Index> explained;  // by epsilon
  double least = std::numeric_limits<double>::infinity();
  double entropy = 0;  // summed over the queries
  Index queries = 0;
  double greatest = -1;  // of c/n

  void add(const Pool& more) {
    keys += more.keys;
    explained.resize(std::max(explained.size(), more.explained.size()), 0);
    for (std::size_t n = 0; n < more.explained.size(); ++n) explained[n] += more.explained[n];
    least = std::min(least, more.least);
    entropy += more.entropy;
    queries += more.queries;
    greatest = std::max(greatest, more.greatest);
  }
};

Pool pool_of(const SchemeSummaryOf& summary) {
  Pool pool;
  pool.keys = summary.sums.keys;
  for (const ExplainedAway& e : summary.sums.explained_away) pool.explained.push_back(e.count);
  if (pool.keys > 0) pool.least = summary.sums.min;
  pool.queries = summary.open_queries;
  if (pool.queries > 0) {
    pool.entropy = summary.mean_entropy * static_cast<double>(pool.queries);
  }
  if (summary.enough.greatest) pool.greatest = summary.enough.greatest->value;
  return pool;
}

using CellText = std::function<std::string(const Pool&)>;

std::string share_text(const Pool& pool, std::size_t epsilon) {
  if (pool.keys == 0) return "-";
  const Index count = pool.explained[epsilon];
  const double share = 100 * static_cast<double>(count) / static_cast<double>(pool.keys);
  // A few must not be shown as none.
  if (count == 0) return "0";
  if (share < 0.05) return "<0.1%";
  return fmt::format("{:.1f}%", share);
}

std::string least_text(const Pool& pool) { return pool.keys == 0 ? "-" : number(pool.least); }

std::string entropy_text(const Pool& pool) {
  return pool.queries == 0 ? "-" : number(pool.entropy / static_cast<double>(pool.queries));
}

std::string greatest_text(const Pool& pool) {
  return pool.greatest < 0 ? "-" : number(pool.greatest);
}

// The common prefix "text/wiki/" of text/wiki/layer0 and text/wiki/layer1: whole levels only.
std::string common_beginning(const std::vector<GroupColumns>& groups) {
  std::string common = groups.front().section.label;
  for (const GroupColumns& group : groups) {
    const std::string& label = group.section.label;
    const auto [end, other] =
        std::mismatch(common.begin(), common.end(), label.begin(), label.end());
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

// The figures of one scheme by group and head.
class Grid {
 public:
  Grid(const std::vector<GroupColumns>& groups, const std::string& scheme) {
    const std::size_t beginning = common_beginning(groups).size();
    for (const GroupColumns& group : groups) {
      const auto found = std::find(group.schemes.begin(), group.schemes.end(), scheme);
      if (found == group.schemes.end()) continue;
      const auto& summaries =
          group.summaries.schemes[static_cast<std::size_t>(found - group.schemes.begin())];
      Row row{label_of(group.section.label.substr(beginning)), {}, {}};
      for (const SchemeSummaryOf& head : summaries.by_head()) {
        row.heads.push_back(pool_of(head));
        row.all.add(row.heads.back());
      }
      const SchemeSummaryOf& all = summaries.all;
      explained_.add({scheme, all.sums.explained_away.front().count, all.sums.keys,
                      all.enough.explained_away.front().count, all.enough.keys});
      concentrated_ += all.concentrated;
      heads_ += static_cast<Index>(summaries.heads.size());
      add(row);
      rows_.push_back(std::move(row));
    }
    explained_.scheme = scheme;
    rows_.push_back(all_);
    for (const Row& row : rows_) width_ = std::max(width_, characters(row.label) + 1);
  }

  const Pool& all() const { return all_.all; }
  const ExplainedKeys& explained() const { return explained_; }
  Index concentrated() const { return concentrated_; }
  Index heads() const { return heads_; }

  std::string table(const std::string& title, const CellText& text_of) const {
    std::string text = title + "\n";
    const std::size_t at_once =
        std::max<std::size_t>(1, (table_width - width_) / cell_width - 1);  // and "all"
    const std::size_t count = all_.heads.size();
    for (std::size_t first = 0; first < count; first += at_once) {
      const std::size_t last = std::min(count, first + at_once);
      const bool ends = last == count;
      if (first > 0) text += "\n";
      text += padded(first == 0 ? "group" : "", width_);
      for (std::size_t head = first; head < last; ++head) {
        text += cell(fmt::format("head {}", head));
      }
      text += ends ? cell("all") + "\n" : "\n";
      for (const Row& row : rows_) text += line(row, first, last, ends, text_of);
    }
    return text;
  }

 private:
  struct Row {
    std::string label;
    std::vector<Pool> heads;
    Pool all;
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

  std::string line(const Row& row, std::size_t first, std::size_t last, bool ends,
                   const CellText& text_of) const {
    std::string text = padded(row.label, width_);
    for (std::size_t head = first; head < last; ++head) {
      text += cell(head < row.heads.size() ? text_of(row.heads[head]) : "");
    }
    if (ends) text += cell(text_of(row.all));
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  }

  std::size_t width_ = 8;
  std::vector<Row> rows_;
  Row all_{"all", {}, {}};
  ExplainedKeys explained_;
  Index concentrated_ = 0;
  Index heads_ = 0;
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

std::string tables_of(const std::string& scheme, const Grid& grid,
                      const ColumnSummaryOptions& options) {
  std::string text;
  for (std::size_t n = 0; n < options.sums.epsilons.size(); ++n) {
    const std::string below = "c < " + compact(options.sums.epsilons[n]);
    if (grid.all().explained.empty() || grid.all().explained[n] == 0) {
      text += fmt::format("\n{}: no key has {}\n", scheme, below);
      continue;
    }
    text += "\n" + grid.table(fmt::format("{}: share of keys with {}", scheme, below),
                              [n](const Pool& pool) { return share_text(pool, n); });
  }
  text += "\n" + grid.table(scheme + ": least c", least_text);
  text +=
      "\n" + grid.table(scheme + ": mean entropy of the weights of a query, in nats", entropy_text);
  text += "\n" + grid.table(scheme + ": largest mean weight of a key, c/n", greatest_text);
  if (grid.concentrated() > 0) {
    text += fmt::format("{} of {} heads give one key a mean weight above {}\n", grid.concentrated(),
                        grid.heads(), compact(options.concentration));
  }
  return text;
}

// The first keys of all groups whose schemes are those of the first.
std::vector<ListedKey> merged(const std::vector<GroupColumns>& groups,
                              std::vector<ColumnSummaries::KeySums> ColumnSummaries::*list,
                              bool ascending, Index count) {
  const std::size_t beginning = common_beginning(groups).size();
  std::vector<ListedKey> keys;
  for (const GroupColumns& group : groups) {
    if (group.schemes != groups.front().schemes) continue;
    for (const auto& key : group.summaries.*list) {
      keys.push_back(
          {group.section.label.substr(beginning), head_label(group.leading, key.head), key});
    }
  }
  std::stable_sort(keys.begin(), keys.end(), [&](const ListedKey& a, const ListedKey& b) {
    const double x = a.sums.sums.front();
    const double y = b.sums.sums.front();
    return ascending ? x < y : x > y;
  });
  if (keys.size() > static_cast<std::size_t>(count)) keys.resize(static_cast<std::size_t>(count));
  return keys;
}

std::string pooled_histograms(
    const std::vector<std::pair<std::string, PooledHistogram>>& histograms) {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const auto& [scheme, histogram] : histograms) {
    const auto decades = histogram.decades();
    low = std::min(low, decades.first);
    high = std::max(high, decades.second);
  }
  std::vector<std::string> schemes;
  std::vector<Histogram> shown;
  for (const auto& [scheme, histogram] : histograms) {
    schemes.push_back(scheme);
    shown.push_back(histogram.between(low, high));
  }
  return histograms_text(schemes, shown);
}

}  // namespace

std::string enough_words(const std::optional<Index>& min_queries) {
  return min_queries ? fmt::format("at least {} queries", *min_queries)
                     : std::string("at least a tenth of the sequence's queries");
}

std::string enough_words(const std::vector<GroupColumns>& groups) {
  const std::optional<Index> first = groups.front().summaries.min_queries();
  const bool same = std::all_of(groups.begin(), groups.end(), [&](const GroupColumns& group) {
    return group.summaries.min_queries() == first;
  });
  return enough_words(same ? first : std::nullopt);
}

std::string groups_report(const std::vector<GroupColumns>& groups,
                          const ColumnSummaryOptions& options,
                          const std::vector<std::pair<std::string, PooledHistogram>>& histograms) {
  const std::string beginning = common_beginning(groups);
  const bool batch = std::any_of(groups.begin(), groups.end(), [](const GroupColumns& group) {
    return group.leading.size() > 1;
  });
  std::string text = fmt::format(
      "{} groups{}{}\n", groups.size(),
      beginning.empty() ? "" : ", names below " + printable(beginning, beginning.size()),
      batch ? "; every cell pools the batch" : "");
  std::vector<ExplainedKeys> explained;
  for (const std::string& scheme : schemes_of(groups)) {
    const Grid grid(groups, scheme);
    text += tables_of(scheme, grid, options);
    explained.push_back(grid.explained());
  }
  text += pooled_histograms(histograms);
  const std::vector<std::string>& schemes = groups.front().schemes;
  text +=
      keys_text("least", schemes, merged(groups, &ColumnSummaries::lowest, true, options.sums.top));
  text += keys_text("most", schemes,
                    merged(groups, &ColumnSummaries::highest, false, options.sums.top));
  return text + "\n" +
         conclusion_text(explained, options.sums.epsilons.front(), enough_words(groups));
}

}  // namespace attn::tools
