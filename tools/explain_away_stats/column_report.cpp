#include "explain_away_stats/column_report.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "common/column_text.hpp"

namespace attn::tools {
namespace {

constexpr Index heads_shown = 64;
constexpr Index bar_width = 30;
constexpr std::size_t name_width = 18;
constexpr Index column_width = 9;

class Writer {
 public:
  Writer(const ColumnStatistics& statistics, const SummaryOptions& options,
         const ColumnSummaries& summaries)
      : statistics_(statistics), options_(options), summaries_(summaries), edges_(summaries.edges) {
    for (const auto& scheme : summaries.schemes) all_.push_back(scheme.all);
  }

  std::string write() {
    table();
    bounds();
    histograms();
    // "lowest" refers to the first scheme, by default softmax.
    keys("least", summaries_.lowest);
    keys("most", summaries_.highest);
    conclusion();
    return text_;
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format(format, std::forward<Args>(args)...);
  }

  bool has_margin(std::size_t scheme) const { return all_[scheme].margin.has_value(); }

  Index scheme_width(std::size_t scheme) const {
    const auto columns =
        static_cast<Index>(options_.epsilons.size()) + (has_margin(scheme) ? 4 : 3);
    return columns * column_width;
  }

  void table() {
    text_ += padded("", 8);
    for (std::size_t n = 0; n < all_.size(); ++n) {
      const std::string& name = statistics_.schemes[n].name;
      const auto rule = static_cast<std::size_t>(scheme_width(n)) - name.size() - 4;
      add("   {} {}", name, std::string(rule, '-'));
    }
    text_ += "\n" + padded("head", 8);
    for (std::size_t n = 0; n < all_.size(); ++n) {
      add("{:>9}{:>9}", "min c", "median c");
      for (const double epsilon : options_.epsilons) add("{:>9}", "c<" + compact(epsilon));
      add("{:>9}", "entropy");
      if (has_margin(n)) add("{:>9}", "margin");
    }
    text_ += "\n";
    const Index heads = statistics_.heads();
    const Index shown = heads > heads_shown ? heads_shown : heads;
    for (Index head = 0; head < shown; ++head) row(head_label(statistics_.leading, head), head);
    if (shown < heads) add("...     {} more heads; --json has them\n", heads - shown);
    if (heads > 1) row("all", -1);
  }

  void row(const std::string& label, Index head) {
    text_ += padded(label, 8);
    for (std::size_t n = 0; n < all_.size(); ++n) {
      const SchemeSummaryOf& summary =
          head < 0 ? all_[n] : summaries_.schemes[n].heads[static_cast<std::size_t>(head)];
      add("{:>9}{:>9}", number(summary.sums.min), number(summary.sums.median));
      for (const ExplainedAway& e : summary.sums.explained_away) {
        add("{:>9}", fmt::format("{:.1f}%", 100 * e.share));
      }
      add("{:>9}", number(summary.mean_entropy));
      if (has_margin(n))
        add("{:>9}", summary.margin ? fmt::format("{:.3g}", *summary.margin) : "-");
    }
    text_ += "\n";
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
      add("{}: c >= {} is proven; {}, the least margin is {:.6g} times the bound.\n", name,
          number(*all_[n].bound), all_[n].holds ? "it holds" : "IT IS VIOLATED", *all_[n].margin);
    }
    const ColumnSumSummary& first = all_.front().sums;
    if (first.masked_keys > 0)
      add("{} keys are masked from every query and left out.\n", first.masked_keys);
    if (all_.front().empty_queries > 0) {
      add("{} queries have no key to attend to.\n", all_.front().empty_queries);
    }
  }

  // One line per bin, schemes side by side, without empty bins at the ends.
  void histograms() {
    Index largest = 0;
    std::size_t low = edges_.size();
    std::size_t high = 0;
    bool zeros = false;
    for (const SchemeSummaryOf& summary : all_) {
      for (std::size_t bin = 0; bin < summary.histogram.counts.size(); ++bin) {
        const Index count = summary.histogram.counts[bin];
        if (count == 0) continue;
        largest = std::max(largest, count);
        low = std::min(low, bin);
        high = std::max(high, bin + 1);
      }
      zeros = zeros || summary.histogram.zeros > 0;
      largest = std::max(largest, summary.histogram.zeros);
    }
    if (largest == 0) return;
    text_ += "\n";
    std::string title = padded("log10 c", 16);
    for (const SchemeColumns& scheme : statistics_.schemes) {
      title += padded(scheme.name, bar_width + 10);
    }
    add_trimmed(std::move(title));
    if (zeros) {
      bar_line("c = 0", largest, [](const Histogram& h) { return h.zeros; });
    }
    for (std::size_t bin = low; bin < high; ++bin) {
      bar_line(fmt::format("{:6.2f} .. {:.2f}", edges_[bin], edges_[bin + 1]), largest,
               [bin](const Histogram& h) { return h.counts[bin]; });
    }
  }

  void add_trimmed(std::string line) {
    line.erase(line.find_last_not_of(' ') + 1);
    text_ += line + "\n";
  }

  template <class Count>
  void bar_line(const std::string& label, Index largest, const Count& count_of) {
    std::string line = padded(label, 16);
    for (const SchemeSummaryOf& summary : all_) {
      const Index count = count_of(summary.histogram);
      // Even a single key gets a bar of one mark.
      const Index marks =
          count == 0 ? 0 : std::max<Index>(1, count * bar_width / std::max<Index>(1, largest));
      line += padded(std::string(static_cast<std::size_t>(marks), '#') +
                         (count == 0 ? "" : fmt::format(" {}", count)),
                     bar_width + 10);
    }
    add_trimmed(std::move(line));
  }

  void keys(const char* which, const std::vector<ColumnSummaries::KeySums>& list) {
    if (list.empty()) return;
    const bool named = !statistics_.names.empty();
    add("\nkeys with the {} attention under {}\n", which, statistics_.schemes.front().name);
    text_ += padded("head", 8) + fmt::format("{:>8}  ", "index") +
             (named ? padded("key", name_width + 2) : "");
    for (const SchemeColumns& scheme : statistics_.schemes) add("{:>12}", scheme.name);
    text_ += "\n";
    for (const ColumnSummaries::KeySums& key : list) {
      text_ +=
          padded(head_label(statistics_.leading, key.head), 8) + fmt::format("{:>8}  ", key.key);
      if (named) {
        text_ +=
            padded(printable(statistics_.name_of(key.head, key.key), name_width), name_width + 2);
      }
      for (const double sum : key.sums) add("{:>12}", number(sum));
      text_ += "\n";
    }
  }

  // "unas explains away 5 of 1024 keys (c < 1e-08), dnas none."
  void conclusion() {
    if (options_.epsilons.empty()) return;
    text_ += "\n";
    for (std::size_t n = 0; n < all_.size(); ++n) {
      const ColumnSumSummary& sums = all_[n].sums;
      const Index count = sums.explained_away.front().count;
      const std::string share =
          count == 0 ? "none" : fmt::format("{} of {} keys", count, sums.keys);
      add("{}{}{} {}", n == 0 ? "" : ", ", statistics_.schemes[n].name,
          n == 0 ? " explains away" : "", share);
      if (n == 0) add(" (c < {})", compact(options_.epsilons.front()));
    }
    text_ += ".\n";
  }

  const ColumnStatistics& statistics_;
  const SummaryOptions& options_;
  const ColumnSummaries& summaries_;
  const std::vector<double>& edges_;
  std::vector<SchemeSummaryOf> all_;
  std::string text_;
};

}  // namespace

std::string column_report(const ColumnStatistics& statistics, const SummaryOptions& options,
                          const ColumnSummaries& summaries) {
  return Writer(statistics, options, summaries).write();
}

}  // namespace attn::tools
