#include "reports/column_page.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "cli/words.hpp"
#include "common/tables/column_text.hpp"
#include "reports/column_lists.hpp"
#include "reports/head_grid.hpp"

namespace attn::tools {
namespace {

constexpr std::size_t heads_named = 10;
// Heads stand out by an entropy below this, or by a sink that gets more than this share.
constexpr double small_entropy = 0.5;
constexpr double large_sink = 0.5;
constexpr std::size_t field_width = 9;
constexpr std::size_t page_width = 100;

Index heads_of(std::span<const GroupColumns> groups) {
  Index heads = 0;
  for (const GroupColumns& group : groups) heads += element_count(group.leading);
  return heads;
}

// What is explained away: among keys with enough queries, if some have fewer.
struct Explained {
  Index count = 0;
  Index keys = 0;
  double share = 0;
  double least = 0;
};
Explained explained_of(const SchemeSummaryOf& summary, std::size_t epsilon = 0) {
  const bool tail = summary.has_tail();
  const auto& counted = tail ? summary.enough.explained_away : summary.sums.explained_away;
  Explained of{.keys = tail ? summary.enough.keys : summary.sums.keys,
               .least = tail ? summary.enough.least : summary.sums.min};
  if (epsilon < counted.size()) {
    of.count = counted[epsilon].count;
    of.share = counted[epsilon].share;
  }
  return of;
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
      // Heads are compared under one scheme.
      const bool alike = groups[n].schemes.front() == groups.front().schemes.front();
      for (std::size_t head = 0; alike && head < heads.size(); ++head) {
        if (heads[head].sums.keys > 0) all_.push_back({n, static_cast<Index>(head), &heads[head]});
      }
      for (const std::string& scheme : groups[n].schemes) {
        if (std::find(schemes_.begin(), schemes_.end(), scheme) == schemes_.end()) {
          schemes_.push_back(scheme);
        }
      }
    }
    for (const GroupColumns& group : groups) {
      for (const auto& scheme : group.summaries.schemes) {
        has_sink_ = has_sink_ || scheme.all.on_sink > 0;
        has_tail_ = has_tail_ || scheme.all.enough.keys < scheme.all.sums.keys;
      }
    }
  }

  std::string text() {
    std::string text = fmt::format(
        "{}{}{}; --full prints the tables by head\n",
        groups_.size() > 1 ? cli::counted(groups_.size(), "group") + ", " : "",
        cli::counted(heads_of(groups_), "head"),
        beginning_.empty() ? "" : ", names below " + printable(beginning_, beginning_.size()));
    // A single section has them in its heading.
    if (groups_.size() > 1) text += terms_line(groups_);
    text += "\n";
    if (!options_.sums.epsilons.empty()) text += conclusion();
    text += outstanding() + lines();
    for (const std::string& scheme : schemes_) text += bound(scheme);
    return text + left_out();
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

  static double on_sink(const SchemeSummaryOf& head) {
    return head.shares.total > 0 ? head.on_sink / head.shares.total : 0;
  }

  // " 'the'", what the report adds to the number of a key; "" for a key without a name.
  static std::string quoted(const std::string& name) {
    constexpr std::size_t width = 16;
    return name.empty() ? "" : fmt::format(" '{}'", printable(name, width));
  }

  std::string why_explained(const HeadAt& at) const {
    const GroupColumns& group = groups_[at.group];
    const Explained of = explained_of(*at.summary);
    const auto& only = at.summary->only_explained;
    const std::string which =
        only ? fmt::format("key {}", only->key) + quoted(only->name) : std::to_string(of.count);
    std::string text = fmt::format("explains away {} of {}", which, cli::counted(of.keys, "key"));
    for (std::size_t n = 1; n < group.schemes.size(); ++n) {
      const auto& other = group.summaries.schemes[n].heads[static_cast<std::size_t>(at.head)];
      const Index count = explained_of(other).count;
      text += fmt::format(", {} {}", group.schemes[n], count == 0 ? "none" : std::to_string(count));
    }
    return text;
  }
  static std::string why_sink(const HeadAt& at) {
    return fmt::format("the sink gets {} of the attention", percent(on_sink(*at.summary)));
  }
  static std::string why_greatest(const HeadAt& at) {
    const KeySum& key = *at.summary->enough.greatest;
    return fmt::format("key {}{} gets {} of a query's weight", key.position,
                       quoted(at.summary->greatest_name), percent(key.value));
  }
  static std::string why_entropy(const HeadAt& at) {
    return fmt::format("entropy {}, close to one key per query", number(at.summary->mean_entropy));
  }

  std::string outstanding() const {
    struct Kind {
      std::vector<HeadAt> heads;
      std::function<std::string(const HeadAt&)> why;
    };
    const auto lack_of_entropy = [](const SchemeSummaryOf& head) {
      // A head that looks at a sink alone sees no key.
      return on_sink(head) > large_sink ? -1.0 : small_entropy - head.mean_entropy;
    };
    const std::vector<Kind> kinds = {
        {by(share, 0), [this](const HeadAt& at) { return why_explained(at); }},
        {by(greatest, options_.concentration), why_greatest},
        {by(on_sink, large_sink), why_sink},
        {by(lack_of_entropy, 0), why_entropy}};
    std::vector<std::vector<std::string>> rows = {{"group", "head", "why"}};
    std::vector<std::pair<std::size_t, Index>> named;
    // In turn from each list, so that no kind of head hides the others.
    for (std::size_t n = 0; named.size() < heads_named; ++n) {
      bool any = false;
      for (const Kind& kind : kinds) {
        if (n >= kind.heads.size() || named.size() >= heads_named) continue;
        any = true;
        const HeadAt& at = kind.heads[n];
        const std::pair place(at.group, at.head);
        if (std::find(named.begin(), named.end(), place) != named.end()) continue;
        named.push_back(place);
        // Its own reason, and others that fit on the line.
        std::string reasons = kind.why(at);
        for (const Kind& other : kinds) {
          const auto same = [&](const HeadAt& one) {
            return std::pair(one.group, one.head) == place;
          };
          if (&other == &kind || std::none_of(other.heads.begin(), other.heads.end(), same))
            continue;
          const std::string more = "; " + other.why(at);
          if (label_width() + reasons.size() + more.size() <= page_width) reasons += more;
        }
        rows.push_back({labels_[at.group], groups_[at.group].label(at.head), std::move(reasons)});
      }
      if (!any) break;
    }
    std::set<std::pair<std::size_t, Index>> outstanding;
    for (const Kind& kind : kinds) {
      for (const HeadAt& at : kind.heads) outstanding.emplace(at.group, at.head);
    }
    const std::size_t all = outstanding.size();
    if (named.empty()) return fmt::format("\nNo head stands out under {}.\n", schemes_.front());
    if (groups_.size() == 1) {
      for (auto& row : rows) row.erase(row.begin());
    }
    return fmt::format("\nheads that stand out under {}\n", schemes_.front()) +
           aligned(std::move(rows)) +
           (all > named.size() ? fmt::format("and {} more\n", all - named.size()) : "");
  }

  // The width of a group's name and a head in the list of heads.
  std::size_t label_width() const {
    std::size_t width = 0;
    for (const std::string& label : labels_) width = std::max(width, characters(label) + 2);
    return (groups_.size() > 1 ? width : 0) + 8;
  }

  std::vector<std::string> titles() const {
    std::vector<std::string> all;
    for (const double epsilon : options_.sums.epsilons) all.push_back("c<" + compact(epsilon));
    for (const char* title : {"least c", "entropy", "first"}) all.emplace_back(title);
    if (has_sink_) all.emplace_back("sink");
    all.emplace_back("max c/n");
    return all;
  }

  std::vector<std::string> fields(const SchemeSummaryOf* of) const {
    if (of == nullptr) return std::vector<std::string>(titles().size(), "-");
    const double total = of->shares.total;
    std::vector<std::string> all;
    for (std::size_t n = 0; n < options_.sums.epsilons.size(); ++n) {
      const Explained explained = explained_of(*of, n);
      // A few keys must not be shown as none.
      all.push_back(explained.count > 0 && explained.share < 0.0005 ? "<0.1%"
                                                                    : percent(explained.share));
    }
    all.push_back(number(explained_of(*of).least));
    all.push_back(number(of->mean_entropy));
    all.push_back(total > 0 ? percent(of->shares.first / total) : "-");
    if (has_sink_) all.push_back(percent(on_sink(*of)));
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

  // "24 keys are masked from every query and left out."
  std::string left_out() const {
    Index masked = 0;
    Index padded_keys = 0;
    Index padded_queries = 0;
    Index empty = 0;
    for (const GroupColumns& group : groups_) {
      const SchemeSummaryOf& all = group.summaries.schemes.front().all;
      masked += all.sums.masked_keys;
      padded_keys += all.padded_keys;
      padded_queries += all.padded_queries;
      empty += all.empty_queries;
    }
    return left_out_text(masked, padded_keys, padded_queries, empty);
  }

  std::span<const GroupColumns> groups_;
  const ColumnSummaryOptions& options_;
  std::string beginning_;
  std::vector<std::string> labels_;
  std::vector<std::string> schemes_;
  std::vector<HeadAt> all_;
  bool has_sink_ = false;
  bool has_tail_ = false;  // some keys have few queries
};

}  // namespace

bool makes_page(std::span<const GroupColumns> groups, const ColumnSummaryOptions& options) {
  return !options.full && heads_of(groups) > most_heads_in_tables;
}

std::string column_page(std::span<const GroupColumns> groups, const ColumnSummaryOptions& options) {
  return Page(groups, options).text();
}

}  // namespace attn::tools
