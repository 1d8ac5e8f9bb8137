#include "reports/column_groups.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "cli/words.hpp"
#include "common/tables/column_text.hpp"
#include "reports/column_lists.hpp"
#include "reports/head_grid.hpp"

namespace attn::tools {
namespace {

// The figures of one cell of every table; cells are pooled into the figures of whole rows and
// columns.
struct Pool {
  Index keys = 0;
  std::vector<Index> explained;  // by epsilon
  double least = std::numeric_limits<double>::infinity();
  double entropy = 0;  // summed over the queries
  Index queries = 0;
  double greatest = -1;  // of c/n
  // Sums of attention: all, on the first key, on the sink, and on the keys with the most.
  double attention = 0, first = 0, on_sink = 0;
  std::vector<double> most;
  std::optional<SinkFigures> sinks;
  // Absent for cells that were pooled here.
  double median = std::numeric_limits<double>::quiet_NaN();

  void add(const Pool& more) {
    attention += more.attention;
    first += more.first;
    on_sink += more.on_sink;
    if (more.sinks) add_head(*more.sinks, sinks);
    most.resize(std::max(most.size(), more.most.size()), 0);
    for (std::size_t n = 0; n < more.most.size(); ++n) most[n] += more.most[n];
    median = std::numeric_limits<double>::quiet_NaN();
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
  pool.attention = summary.shares.total;
  pool.first = summary.shares.first;
  pool.most.assign(summary.shares.most.begin(), summary.shares.most.end());
  pool.on_sink = summary.on_sink;
  pool.sinks = summary.sinks;
  pool.median = summary.sums.median;
  return pool;
}

using CellText = std::function<std::string(const Pool&)>;

std::string share_text(const Pool& pool, std::size_t epsilon) {
  if (pool.keys == 0) return "-";
  const Index count = pool.explained[epsilon];
  const double share = 100 * static_cast<double>(count) / static_cast<double>(pool.keys);
  // A few keys must not be shown as none.
  if (count == 0) return "0";
  if (share < 0.05) return "<0.1%";
  return fmt::format("{:.1f}%", share);
}

std::string least_text(const Pool& pool) { return pool.keys == 0 ? "-" : number(pool.least); }

std::string median_text(const Pool& pool) {
  return std::isnan(pool.median) ? "-" : number(pool.median);
}

std::string part_text(const Pool& pool, double sum) {
  return pool.attention > 0 ? percent(sum / pool.attention) : "-";
}

std::string entropy_text(const Pool& pool) {
  return pool.queries == 0 ? "-" : number(pool.entropy / static_cast<double>(pool.queries));
}

std::string greatest_text(const Pool& pool) {
  return pool.greatest < 0 ? "-" : number(pool.greatest);
}

std::vector<std::string> names_of(const std::vector<GroupColumns>& groups) {
  std::vector<std::string> names;
  for (const GroupColumns& group : groups) names.push_back(group.section.label);
  return names;
}

// The figures of one scheme by group and head.
class Grid {
 public:
  Grid(const std::vector<GroupColumns>& groups, const std::string& scheme) {
    const std::vector<std::string> labels = group_labels(names_of(groups));
    for (std::size_t n = 0; n < groups.size(); ++n) {
      const GroupColumns& group = groups[n];
      const auto found = std::find(group.schemes.begin(), group.schemes.end(), scheme);
      if (found == group.schemes.end()) continue;
      const auto& summaries =
          group.summaries.schemes[static_cast<std::size_t>(found - group.schemes.begin())];
      Row row{labels[n], {}, {}};
      Index place = 0;
      for (const SchemeSummaryOf& head : summaries.by_head()) {
        const Pool pool = pool_of(head);
        row.heads[group.number(place++)] = pool;
        row.all.add(pool);
      }
      const SchemeSummaryOf& all = summaries.all;
      row.all.median = all.sums.median;
      if (all.bound) {
        bound_ = std::min(bound_.value_or(*all.bound), *all.bound);
        margin_ = std::min(margin_.value_or(*all.margin), *all.margin);
        holds_ = holds_ && all.holds;
      }
      explained_.add({scheme, all.sums.explained_away.front().count, all.sums.keys,
                      all.enough.explained_away.front().count, all.enough.keys});
      concentrated_ += all.concentrated;
      heads_ += static_cast<Index>(summaries.heads.size());
      add(row);
      rows_.push_back(std::move(row));
    }
    explained_.scheme = scheme;
    rows_.push_back(all_);
  }

  const Pool& all() const { return all_.all; }
  const ExplainedKeys& explained() const { return explained_; }
  Index concentrated() const { return concentrated_; }
  Index heads() const { return heads_; }

  // "dnas: c >= 0.0833 is proven; it holds, ...", or nothing without a bound.
  std::string bound_text() const {
    return bound_ ? proven_text(explained_.scheme, *bound_, holds_, *margin_) : "";
  }

  std::string table(const std::string& title, const CellText& text_of) const {
    std::vector<GridRow> shown;
    for (const Row& row : rows_) {
      shown.push_back({row.label, {}, text_of(row.all)});
      for (const auto& [number, head] : row.heads) shown.back().heads[number] = text_of(head);
    }
    return head_grid(title, shown);
  }

 private:
  struct Row {
    std::string label;
    std::map<Index, Pool> heads;  // by their places along the last axis
    Pool all;
  };

  void add(const Row& row) {
    for (const auto& [number, head] : row.heads) all_.heads[number].add(head);
    all_.all.add(row.all);
  }

  std::vector<Row> rows_;
  Row all_{"all", {}, {}};
  ExplainedKeys explained_;
  std::optional<double> bound_, margin_;
  bool holds_ = true;
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
  text += "\n" + grid.table(scheme + ": least c", least_text) + grid.bound_text();
  text += "\n" + grid.table(scheme + ": median c", median_text);
  text +=
      "\n" + grid.table(scheme + ": mean entropy of the weights of a query, in nats", entropy_text);
  text += "\n" + grid.table(scheme + ": largest mean weight of a key, c/n", greatest_text);
  text += "\n" + grid.table(scheme + ": share of the attention on the first key",
                            [](const Pool& pool) { return part_text(pool, pool.first); });
  for (std::size_t n = 0; n < grid.all().most.size(); ++n) {
    const Index count = options.most[n];
    const std::string title = count == 1 ? "on the key with the most"
                                         : fmt::format("on the {} keys with the most", count);
    text += "\n" + grid.table(scheme + ": share of the attention " + title,
                              [n](const Pool& pool) { return part_text(pool, pool.most[n]); });
  }
  if (grid.all().on_sink > 0) {
    text += "\n" + grid.table(scheme + ": share of the attention on the sink",
                              [](const Pool& pool) { return part_text(pool, pool.on_sink); });
  }
  for (const SinkField& field : sink_fields()) {
    if (!options.sinks) break;
    text += "\n" + grid.table(fmt::format("{}: {}", scheme, field.title), [&](const Pool& pool) {
      return pool.sinks ? field.text(*pool.sinks, pool.attention) : "-";
    });
  }
  if (grid.concentrated() > 0) {
    text +=
        fmt::format("{} of {} {} one key a mean weight above {}\n", grid.concentrated(),
                    cli::counted(grid.heads(), "head"), grid.concentrated() == 1 ? "gives" : "give",
                    compact(options.concentration));
  }
  return text;
}

// The first keys of all groups that have the schemes of the first group.
std::vector<ListedKey> merged(const std::vector<GroupColumns>& groups,
                              std::vector<ColumnSummaries::KeySums> ColumnSummaries::*list,
                              bool ascending, Index count) {
  const std::size_t beginning = common_beginning(names_of(groups)).size();
  std::vector<ListedKey> keys;
  for (const GroupColumns& group : groups) {
    if (group.schemes != groups.front().schemes) continue;
    for (const auto& key : group.summaries.*list) {
      keys.push_back({group.section.label.substr(beginning), group.label(key.head), key});
    }
  }
  std::stable_sort(keys.begin(), keys.end(), [&](const ListedKey& a, const ListedKey& b) {
    const auto rank = [](const ListedKey& key) {
      const double sum = key.sums.sums.front();
      return std::pair(sum / static_cast<double>(key.sums.queries), sum);
    };
    return ascending ? rank(a) < rank(b) : rank(a) > rank(b);
  });
  if (keys.size() > static_cast<std::size_t>(count)) keys.resize(static_cast<std::size_t>(count));
  return keys;
}

std::string pooled_histograms(
    const std::vector<std::pair<std::string, PooledHistogram>>& histograms,
    const std::string& of_keys) {
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
  return histograms_text(schemes, shown, of_keys);
}

}  // namespace

std::string terms_line(std::span<const GroupColumns> groups) {
  std::vector<std::pair<std::string, Index>> found;  // in the order of the groups
  for (const GroupColumns& group : groups) {
    auto at = std::find_if(found.begin(), found.end(),
                           [&](const auto& one) { return one.first == group.terms; });
    if (at == found.end()) at = found.insert(found.end(), {group.terms, 0});
    ++at->second;
  }
  if (found.size() == 1) return found.front().first.empty() ? "" : found.front().first + "\n";
  std::stable_partition(found.begin(), found.end(),
                        [](const auto& one) { return !one.first.empty(); });
  std::vector<std::string> parts;
  for (const auto& [terms, count] : found) {
    parts.push_back(
        fmt::format("{} ({})", terms.empty() ? "none" : terms, cli::counted(count, "group")));
  }
  return fmt::format("{}\n", fmt::join(parts, "; "));
}

std::string enough_words(const std::optional<Index>& min_queries) {
  return min_queries ? "at least " + cli::counted(*min_queries, "query", "queries")
                     : std::string("at least a tenth of the sequence's queries");
}

std::string enough_words(std::span<const GroupColumns> groups) {
  const std::optional<Index> first = groups.front().summaries.min_queries();
  const bool same = std::all_of(groups.begin(), groups.end(), [&](const GroupColumns& group) {
    return group.summaries.min_queries() == first;
  });
  return enough_words(same ? first : std::nullopt);
}

std::string groups_report(const std::vector<GroupColumns>& groups,
                          const ColumnSummaryOptions& options,
                          const std::vector<std::pair<std::string, PooledHistogram>>& histograms) {
  const std::string beginning = common_beginning(names_of(groups));
  const bool batch = std::any_of(groups.begin(), groups.end(), [](const GroupColumns& group) {
    return group.leading.size() > 1;
  });
  std::string text = fmt::format(
      "{}{}{}\n", cli::counted(groups.size(), "group"),
      beginning.empty() ? "" : ", names below " + printable(beginning, beginning.size()),
      batch ? "; every cell pools the batch" : "");
  text += terms_line(groups);
  std::vector<ExplainedKeys> explained;
  for (const std::string& scheme : schemes_of(groups)) {
    const Grid grid(groups, scheme);
    text += tables_of(scheme, grid, options);
    explained.push_back(grid.explained());
  }
  const ExplainedKeys& first = explained.front();
  const std::string of_keys = first.enough_keys < first.keys ? enough_words(groups) : "";
  text += pooled_histograms(histograms, of_keys);
  const std::vector<std::string>& schemes = groups.front().schemes;
  text += keys_text("least", schemes,
                    merged(groups, &ColumnSummaries::lowest, true, options.sums.top), of_keys);
  text += keys_text("most", schemes,
                    merged(groups, &ColumnSummaries::highest, false, options.sums.top), of_keys);
  return text + "\n" +
         conclusion_text(explained, options.sums.epsilons.front(), enough_words(groups));
}

}  // namespace attn::tools
