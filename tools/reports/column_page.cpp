#include "reports/column_page.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "cli/words.hpp"
#include "common/tables/column_text.hpp"
#include "reports/column_lists.hpp"
#include "reports/head_grid.hpp"

namespace attn::tools {
namespace {

constexpr std::size_t heads_named = 10;
constexpr std::size_t field_width = 9;
constexpr std::size_t page_width = 100;

Index heads_of(std::span<const GroupColumns> groups) {
  Index heads = 0;
  for (const GroupColumns& group : groups) heads += element_count(group.leading);
  return heads;
}

// Keys with enough queries, if some have fewer.
struct Explained {
  double share = 0;
  double least = 0;
};
Explained explained_of(const SchemeSummaryOf& summary) {
  const bool tail = summary.enough.keys > 0 && summary.enough.keys < summary.sums.keys;
  const auto& counted = tail ? summary.enough.explained_away : summary.sums.explained_away;
  return {counted.empty() ? 0 : counted.front().share,
          tail ? summary.enough.least : summary.sums.min};
}

// One head of a group under the group's first scheme.
struct HeadAt {
  std::size_t group = 0;
  Index head = 0;
  const SchemeSummaryOf* summary = nullptr;
};

class Page {
 public:
  Page(std::span<const GroupColumns> groups, const ColumnSummaryOptions& options)
      : groups_(groups), options_(options) {
    std::vector<std::string> names;
    for (const GroupColumns& group : groups) names.push_back(group.section.label);
    beginning_ = common_beginning(names);
    labels_ = group_labels(names);
    for (std::size_t n = 0; n < groups.size(); ++n) {
      const auto& heads = groups[n].summaries.schemes.front().heads;
      for (std::size_t head = 0; head < heads.size(); ++head) {
        if (heads[head].sums.keys > 0) all_.push_back({n, static_cast<Index>(head), &heads[head]});
      }
      for (const std::string& scheme : groups[n].schemes) {
        if (std::find(schemes_.begin(), schemes_.end(), scheme) == schemes_.end()) {
          schemes_.push_back(scheme);
        }
      }
    }
    if (!options.sums.epsilons.empty()) below_ = "c<" + compact(options.sums.epsilons.front());
  }

  std::string text() {
    std::string text = fmt::format(
        "{}{}{}; --full prints the tables by head\n\n",
        groups_.size() > 1 ? cli::counted(groups_.size(), "group") + ", " : "",
        cli::counted(heads_of(groups_), "head"),
        beginning_.empty() ? "" : ", names below " + printable(beginning_, beginning_.size()));
    if (!below_.empty()) text += conclusion();
    text += outstanding() + lines();
    for (const std::string& scheme : schemes_) text += bound(scheme);
    return text;
  }

 private:
  const SchemeSummaryOf* summary_of(const GroupColumns& group, const std::string& scheme) const {
    const auto found = std::find(group.schemes.begin(), group.schemes.end(), scheme);
    if (found == group.schemes.end()) return nullptr;
    return &group.summaries.schemes[static_cast<std::size_t>(found - group.schemes.begin())].all;
  }

  template <class Body>
  void for_groups(const std::string& scheme, const Body& body) const {
    for (const GroupColumns& group : groups_) {
      if (const SchemeSummaryOf* const all = summary_of(group, scheme)) body(*all);
    }
  }

  std::string conclusion() const {
    std::vector<ExplainedKeys> found;
    for (const std::string& scheme : schemes_) {
      ExplainedKeys of{scheme};
      for_groups(scheme, [&](const SchemeSummaryOf& all) {
        of.add({scheme, all.sums.explained_away.front().count, all.sums.keys,
                all.enough.explained_away.front().count, all.enough.keys});
      });
      found.push_back(of);
    }
    return conclusion_text(found, options_.sums.epsilons.front(), enough_words(groups_));
  }

  // The heads by `figure`, the largest first, as far as it is more than `least`.
  std::vector<HeadAt> by(const std::function<double(const SchemeSummaryOf&)>& figure,
                         double least) const {
    std::vector<std::pair<double, HeadAt>> ranked;
    for (const HeadAt& head : all_) {
      const double value = figure(*head.summary);
      if (value > least) ranked.emplace_back(value, head);
    }
    std::stable_sort(ranked.begin(), ranked.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<HeadAt> heads;
    for (const auto& one : ranked) heads.push_back(one.second);
    return heads;
  }

  static double share(const SchemeSummaryOf& head) { return explained_of(head).share; }
  static double greatest(const SchemeSummaryOf& head) {
    return head.enough.greatest ? head.enough.greatest->value : 0;
  }

  std::string why_explained(const HeadAt& at) const {
    const GroupColumns& group = groups_[at.group];
    std::string text = fmt::format("explains away {} of its keys", percent(share(*at.summary)));
    for (std::size_t n = 1; n < group.schemes.size(); ++n) {
      const auto& other = group.summaries.schemes[n].heads[static_cast<std::size_t>(at.head)];
      text += fmt::format(", {} {}", group.schemes[n], percent(share(other)));
    }
    return text;
  }
  static std::string why_greatest(const HeadAt& at) {
    const KeySum& key = *at.summary->enough.greatest;
    return fmt::format("key {} gets {} of a query's weight", key.position, percent(key.value));
  }
  static std::string why_entropy(const HeadAt& at) {
    const double entropy = at.summary->mean_entropy;
    return fmt::format("entropy {}: a query sees some {} keys", number(entropy),
                       number(std::exp(entropy)));
  }

  std::string outstanding() const {
    using Why = std::function<std::string(const HeadAt&)>;
    const std::vector<std::pair<std::vector<HeadAt>, Why>> kinds = {
        {by(share, 0), [this](const HeadAt& at) { return why_explained(at); }},
        {by(greatest, options_.concentration), why_greatest},
        {by([](const SchemeSummaryOf& head) { return -head.mean_entropy; },
            -std::numeric_limits<double>::infinity()),
         why_entropy}};
    std::vector<std::vector<std::string>> rows = {{"group", "head", "why"}};
    std::vector<std::pair<std::size_t, Index>> named;
    // In turn from each list, so that no kind of head hides the others.
    for (std::size_t n = 0; named.size() < heads_named; ++n) {
      bool any = false;
      for (const auto& [heads, why] : kinds) {
        if (n >= heads.size() || named.size() >= heads_named) continue;
        any = true;
        const HeadAt& at = heads[n];
        const std::pair place(at.group, at.head);
        if (std::find(named.begin(), named.end(), place) != named.end()) continue;
        named.push_back(place);
        rows.push_back(
            {labels_[at.group], head_label(groups_[at.group].leading, at.head), why(at)});
      }
      if (!any) break;
    }
    if (groups_.size() == 1) {
      for (auto& row : rows) row.erase(row.begin());
    }
    return fmt::format("\nheads that stand out under {}\n", schemes_.front()) +
           aligned(std::move(rows));
  }

  std::vector<std::string> titles() const {
    std::vector<std::string> all;
    if (!below_.empty()) all.push_back(below_);
    for (const char* title : {"least c", "entropy", "first", "max c/n"}) all.emplace_back(title);
    return all;
  }

  std::vector<std::string> fields(const SchemeSummaryOf* of) const {
    if (of == nullptr) return std::vector<std::string>(titles().size(), "-");
    const double total = of->shares.total;
    const Explained explained = explained_of(*of);
    std::vector<std::string> all;
    if (!below_.empty()) all.push_back(percent(explained.share));
    all.push_back(number(explained.least));
    all.push_back(number(of->mean_entropy));
    all.push_back(total > 0 ? percent(of->shares.first / total) : "-");
    all.push_back(of->enough.greatest ? number(of->enough.greatest->value) : "-");
    return all;
  }

  // A line for each group, with the figures of as many schemes as fit.
  std::string lines() const {
    std::string text;
    std::size_t width = 6;
    for (const std::string& label : labels_) width = std::max(width, characters(label) + 2);
    const std::size_t room = page_width - std::min(page_width, width);
    const std::size_t at_once = std::max<std::size_t>(1, room / (titles().size() * field_width));
    for (std::size_t first = 0; first < schemes_.size(); first += at_once) {
      const std::size_t last = std::min(first + at_once, schemes_.size());
      std::string above = padded("", width);
      std::string below = padded(groups_.size() > 1 ? "group" : "", width);
      for (std::size_t n = first; n < last; ++n) {
        const std::size_t columns = titles().size() * field_width;
        above += fmt::format("   {} {}", schemes_[n],
                             std::string(columns - schemes_[n].size() - 4, '-'));
        for (const std::string& title : titles())
          below += fmt::format("{:>{}}", title, field_width);
      }
      text += "\n" + above + "\n" + below + "\n";
      for (std::size_t g = 0; g < groups_.size(); ++g) {
        text += padded(groups_.size() > 1 ? labels_[g] : "all", width);
        for (std::size_t n = first; n < last; ++n) {
          for (const std::string& field : fields(summary_of(groups_[g], schemes_[n]))) {
            text += fmt::format("{:>{}}", field, field_width);
          }
        }
        text += "\n";
      }
    }
    return text +
           "\nc is the column sum of a key: the total attention that it receives. entropy: the "
           "mean "
           "over\nqueries, in nats. first: the share of the attention on the first key. max c/n: "
           "the "
           "largest mean\nweight of a key.\n";
  }

  std::string bound(const std::string& scheme) const {
    std::optional<double> least, margin;
    bool holds = true;
    for_groups(scheme, [&](const SchemeSummaryOf& all) {
      if (!all.bound) return;
      least = std::min(least.value_or(*all.bound), *all.bound);
      margin = std::min(margin.value_or(*all.margin), *all.margin);
      holds = holds && all.holds;
    });
    return least ? proven_text(scheme, *least, holds, *margin) : "";
  }

  std::span<const GroupColumns> groups_;
  const ColumnSummaryOptions& options_;
  std::string beginning_;
  std::vector<std::string> labels_;
  std::vector<std::string> schemes_;
  std::vector<HeadAt> all_;
  std::string below_;
};

}  // namespace

bool makes_page(std::span<const GroupColumns> groups, const ColumnSummaryOptions& options) {
  return !options.full && heads_of(groups) > most_heads_in_tables;
}

std::string column_page(std::span<const GroupColumns> groups, const ColumnSummaryOptions& options) {
  return Page(groups, options).text();
}

}  // namespace attn::tools
