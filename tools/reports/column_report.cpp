#include "reports/column_report.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "cli/words.hpp"
#include "common/tables/column_text.hpp"
#include "reports/column_groups.hpp"
#include "reports/column_lists.hpp"

namespace attn::tools {
namespace {

constexpr Index heads_shown = 64;
constexpr std::size_t head_width = 8;
constexpr std::size_t column_width = 9;
constexpr std::size_t most_width = 100;

class Writer {
 public:
  Writer(const ColumnStatistics& statistics, const ColumnSummaryOptions& options,
         const ColumnSummaries& summaries)
      : statistics_(statistics), options_(options), summaries_(summaries) {
    for (const auto& scheme : summaries.schemes) {
      all_.push_back(scheme.all);
      histograms_.push_back(scheme.all.enough_histogram);
    }
    for (const SchemeColumns& scheme : statistics.schemes) names_.push_back(scheme.name);
    has_tail_ = all_.front().enough.keys < all_.front().sums.keys;
  }

  std::string write() {
    table();
    bounds();
    shares();
    const std::string of_keys = has_tail_ ? enough_words(summaries_.min_queries()) : "";
    text_ += histograms_text(names_, histograms_, of_keys);
    // "lowest" refers to the first scheme, by default softmax.
    text_ += keys_text("least", names_, listed(summaries_.lowest), of_keys);
    text_ += keys_text("most", names_, listed(summaries_.highest), of_keys);
    conclusion();
    return text_;
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format(format, std::forward<Args>(args)...);
  }

  bool has_margin(std::size_t scheme) const { return all_[scheme].margin.has_value(); }

  using Fields = std::vector<std::string>;

  // Tables of at most 100 columns: as many schemes side by side as fit.
  template <class Headings, class Row>
  void by_head(const Headings& headings, const Row& row) {
    std::size_t first = 0;
    while (first < all_.size()) {
      std::size_t width = head_width + headings(first).size() * column_width;
      std::size_t last = first + 1;
      for (; last < all_.size(); ++last) {
        width += headings(last).size() * column_width;
        if (width > most_width) break;
      }
      if (first > 0) text_ += "\n";
      by_head(headings, row, first, last);
      first = last;
    }
  }

  // A line of names of the schemes `first` to `last` above a line of headings, then a row for each
  // head and one for all.
  template <class Headings, class Row>
  void by_head(const Headings& headings, const Row& row, std::size_t first, std::size_t last) {
    std::string above = padded("", head_width);
    std::string below = padded("head", head_width);
    for (std::size_t n = first; n < last; ++n) {
      const Fields titles = headings(n);
      const std::size_t width = titles.size() * column_width;
      above += fmt::format("   {} {}", names_[n], std::string(width - names_[n].size() - 4, '-'));
      for (const std::string& title : titles) below += fmt::format("{:>{}}", title, column_width);
    }
    text_ += above + "\n" + below + "\n";
    const auto line = [&](const std::string& label, const auto& summary_of) {
      text_ += padded(label, head_width);
      for (std::size_t n = first; n < last; ++n) {
        for (const std::string& field : row(n, summary_of(n))) {
          add("{:>{}}", field, column_width);
        }
      }
      text_ += "\n";
    };
    const Index heads = statistics_.heads();
    const Index shown = heads > heads_shown ? heads_shown : heads;
    for (Index head = 0; head < shown; ++head) {
      line(statistics_.label(head), [&](std::size_t n) -> const SchemeSummaryOf& {
        return summaries_.schemes[n].heads[static_cast<std::size_t>(head)];
      });
    }
    if (shown < heads)
      add("...     {}; --tsv and --json have them\n", cli::counted(heads - shown, "more head"));
    if (heads > 1) {
      line("all", [&](std::size_t n) -> const SchemeSummaryOf& { return all_[n]; });
    }
  }

  void table() {
    by_head(
        [&](std::size_t n) {
          Fields titles = {"min c", "median c"};
          for (const double epsilon : options_.sums.epsilons) {
            titles.push_back("c<" + compact(epsilon));
            if (has_tail_) titles.emplace_back("enough");
          }
          titles.emplace_back("entropy");
          if (has_margin(n)) titles.emplace_back("margin");
          return titles;
        },
        [&](std::size_t n, const SchemeSummaryOf& summary) {
          Fields fields = {number(summary.sums.min), number(summary.sums.median)};
          for (std::size_t e = 0; e < summary.sums.explained_away.size(); ++e) {
            fields.push_back(percent(summary.sums.explained_away[e].share));
            if (has_tail_) fields.push_back(percent(summary.enough.explained_away[e].share));
          }
          fields.push_back(number(summary.mean_entropy));
          if (has_margin(n)) {
            fields.push_back(summary.margin ? fmt::format("{:.3g}", *summary.margin) : "-");
          }
          return fields;
        });
  }

  bool has_sink() const {
    return std::any_of(all_.begin(), all_.end(),
                       [](const SchemeSummaryOf& summary) { return summary.on_sink > 0; });
  }

  // The share of the attention that few keys get.
  void shares() {
    text_ += "\n";
    by_head(
        [&](std::size_t) {
          Fields titles = {"first"};
          for (const Index count : options_.most) titles.push_back(fmt::format("top {}", count));
          if (has_sink()) titles.emplace_back("sink");
          titles.emplace_back("max c/n");
          return titles;
        },
        [&](std::size_t, const SchemeSummaryOf& summary) {
          const double total = summary.shares.total;
          const auto share = [&](double sum) { return total > 0 ? percent(sum / total) : "-"; };
          Fields fields = {share(summary.shares.first)};
          for (const double sum : summary.shares.most) fields.push_back(share(sum));
          if (has_sink()) fields.push_back(share(summary.on_sink));
          const auto& greatest = summary.enough.greatest;
          fields.push_back(greatest ? number(greatest->value) : "-");
          return fields;
        });
    add("\nfirst, top N: the share of the attention on the first key, and on the N keys with the "
        "most.\nmax c/n: the largest mean weight of a key, c over its n queries, of keys with "
        "{}.\n",
        enough_words(summaries_.min_queries()));
    for (std::size_t n = 0; n < all_.size(); ++n) concentrated(n);
    if (options_.sinks) sinks();
  }

  // What the first keys do to values and output.
  void sinks() {
    text_ += "\n";
    by_head(
        [](std::size_t) {
          Fields titles;
          for (const SinkField& field : sink_fields()) titles.emplace_back(field.heading);
          return titles;
        },
        [](std::size_t, const SchemeSummaryOf& summary) {
          Fields fields;
          for (const SinkField& field : sink_fields()) {
            fields.push_back(field.text(*summary.sinks, summary.shares.total));
          }
          return fields;
        });
    const Index keys = *options_.sinks;
    add("\nshare: of the attention on the first {}; |v|, others: the mean norm of their values and "
        "of the other values.\nrank, without: the stable rank of the output, |O|_F^2/|O|_2^2, and "
        "without the terms of these keys.\nmax |s|: the largest |score|.\n",
        keys == 1 ? "key" : fmt::format("{} keys", keys));
  }

  // "unas: 2 of 8 heads give one key a mean weight above 0.3: 1 (key 0, 0.45), ..."
  void concentrated(std::size_t scheme) {
    if (all_[scheme].concentrated == 0) return;
    add("{}: {} of {} {} one key a mean weight above {}:", names_[scheme],
        all_[scheme].concentrated, cli::counted(statistics_.heads(), "head"),
        all_[scheme].concentrated == 1 ? "gives" : "give", compact(options_.concentration));
    constexpr Index most = 5;
    Index shown = 0;
    for (Index head = 0; head < statistics_.heads() && shown < most; ++head) {
      const SchemeSummaryOf& of_head =
          summaries_.schemes[scheme].heads[static_cast<std::size_t>(head)];
      if (of_head.concentrated == 0) continue;
      const KeySum& key = *of_head.enough.greatest;
      const std::string name = statistics_.name_of(head, key.position);
      add("{} head {} (key {}{}, {})", shown++ == 0 ? "" : ",", statistics_.label(head),
          key.position, name.empty() ? "" : " " + printable(name, 18), number(key.value));
    }
    text_ += shown < all_[scheme].concentrated ? ", ...\n" : "\n";
  }

  std::vector<ListedKey> listed(const std::vector<ColumnSummaries::KeySums>& keys) const {
    std::vector<ListedKey> list;
    for (const auto& key : keys) list.push_back({"", statistics_.label(key.head), key});
    return list;
  }

  void bounds() {
    text_ +=
        "\nc is the column sum of a key: the total attention that it receives. entropy is the mean "
        "over rows, in nats.\n";
    for (std::size_t n = 0; n < all_.size(); ++n) {
      const std::string& name = statistics_.schemes[n].name;
      if (!all_[n].bound) {
        if (name == "unas") add("{}: no bound, c can be arbitrarily small.\n", name);
        continue;
      }
      text_ += proven_text(name, *all_[n].bound, all_[n].holds, *all_[n].margin);
    }
    const ColumnSumSummary& first = all_.front().sums;
    if (has_tail_) {
      add("enough: the same share among the {} of {} to which {} may attend.\n",
          all_.front().enough.keys, cli::counted(first.keys, "key"),
          enough_words(summaries_.min_queries()));
    }
    text_ += left_out_text(first.masked_keys, all_.front().padded_keys, all_.front().padded_queries,
                           all_.front().empty_queries);
  }

  // "unas explains away 5 of 1024 keys (c < 1e-08), dnas none."
  void conclusion() {
    if (options_.sums.epsilons.empty()) return;
    std::vector<ExplainedKeys> found;
    for (std::size_t n = 0; n < all_.size(); ++n) {
      const SchemeSummaryOf& of = all_[n];
      found.push_back({names_[n], of.sums.explained_away.front().count, of.sums.keys,
                       of.enough.explained_away.front().count, of.enough.keys});
    }
    text_ += "\n" + conclusion_text(found, options_.sums.epsilons.front(),
                                    enough_words(summaries_.min_queries()));
  }

  const ColumnStatistics& statistics_;
  const ColumnSummaryOptions& options_;
  const ColumnSummaries& summaries_;
  std::vector<std::string> names_;  // of the schemes
  std::vector<SchemeSummaryOf> all_;
  std::vector<Histogram> histograms_;
  bool has_tail_ = false;  // some keys have few queries
  std::string text_;
};

}  // namespace

std::string column_report(const ColumnStatistics& statistics, const ColumnSummaryOptions& options,
                          const ColumnSummaries& summaries) {
  return Writer(statistics, options, summaries).write();
}

}  // namespace attn::tools
