#include "reports/column_lists.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "cli/words.hpp"
#include "common/tables/column_text.hpp"

namespace attn::tools {
namespace {

constexpr Index bar_width = 30;
constexpr std::size_t bin_width = 16;
constexpr std::size_t key_name_width = 18;
constexpr std::size_t group_width = 24;  // maximum

std::string trimmed(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string bar(Index count, Index largest) {
  if (count == 0) return "";
  // Even a single key gets a bar of one mark.
  const Index marks = std::max<Index>(1, count * bar_width / std::max<Index>(1, largest));
  return std::string(static_cast<std::size_t>(marks), '#') + fmt::format(" {}", count);
}

template <class Count>
std::string bar_line(const std::string& label, const std::vector<Histogram>& histograms,
                     Index largest, const Count& count_of) {
  std::string line = padded(label, bin_width);
  for (const Histogram& histogram : histograms) {
    line += padded(bar(count_of(histogram), largest), bar_width + 10);
  }
  return trimmed(std::move(line));
}

std::string count_text(Index count) { return count == 0 ? "none" : std::to_string(count); }

std::string count_text(Index count, Index keys) {
  return count == 0 ? "none" : fmt::format("{} of {}", count, cli::counted(keys, "key"));
}

}  // namespace

std::string percent(double share) {
  return std::isnan(share) ? "-" : fmt::format("{:.1f}%", 100 * share);
}

std::string proven_text(const std::string& scheme, double bound, bool holds, double margin) {
  return fmt::format("{}: c >= {} is proven; {}, the least margin is {:.5g} times the bound.\n",
                     scheme, number(bound), holds ? "it holds" : "IT IS VIOLATED", margin);
}

std::string histograms_text(const std::vector<std::string>& schemes,
                            const std::vector<Histogram>& histograms, const std::string& of_keys) {
  const std::vector<double>& edges = histograms.front().edges;
  Index largest = 0;
  std::size_t low = edges.size();
  std::size_t high = 0;
  bool zeros = false;
  for (const Histogram& histogram : histograms) {
    for (std::size_t bin = 0; bin < histogram.counts.size(); ++bin) {
      const Index count = histogram.counts[bin];
      if (count == 0) continue;
      largest = std::max(largest, count);
      low = std::min(low, bin);
      high = std::max(high, bin + 1);
    }
    zeros = zeros || histogram.zeros > 0;
    largest = std::max(largest, histogram.zeros);
  }
  if (largest == 0) return "";
  std::string title = padded("log10 c", bin_width);
  for (const std::string& scheme : schemes) title += padded(scheme, bar_width + 10);
  std::string text = "\n" + (of_keys.empty() ? "" : "keys with " + of_keys + "\n");
  text += trimmed(std::move(title));
  if (zeros) {
    text += bar_line("c = 0", histograms, largest, [](const Histogram& h) { return h.zeros; });
  }
  for (std::size_t bin = low; bin < high; ++bin) {
    text += bar_line(fmt::format("{:6.2f} .. {:.2f}", edges[bin], edges[bin + 1]), histograms,
                     largest, [bin](const Histogram& h) { return h.counts[bin]; });
  }
  return text;
}

std::string keys_text(const std::string& which, const std::vector<std::string>& schemes,
                      const std::vector<ListedKey>& keys, const std::string& of_keys) {
  if (keys.empty()) return "";
  const auto any = [&](const auto& property) {
    return std::any_of(keys.begin(), keys.end(), property);
  };
  const bool grouped = any([](const ListedKey& key) { return !key.group.empty(); });
  const bool named = any([](const ListedKey& key) { return !key.sums.name.empty(); });
  std::size_t width = 6;
  for (const ListedKey& key : keys) width = std::max(width, characters(key.group));
  width = std::min(width, group_width) + 2;
  // The order is of c/n.
  const bool per_query =
      any([&](const ListedKey& key) { return key.sums.queries != keys.front().sums.queries; });
  std::string text =
      of_keys.empty()
          ? fmt::format("\nkeys with the {} attention {}under {}\n", which,
                        per_query ? "per query " : "", schemes.front())
          : fmt::format("\nkeys with the {} attention per query under {}, of keys with {}\n", which,
                        schemes.front(), of_keys);
  if (grouped) text += padded("group", width);
  text += padded("head", 8) + fmt::format("{:>8}  ", "index");
  if (named) text += padded("key", key_name_width + 2);
  text += fmt::format("{:>8}", "n");
  for (const std::string& scheme : schemes) text += fmt::format("{:>12}{:>9}", scheme, "c/n");
  text += "\n";
  for (const ListedKey& key : keys) {
    if (grouped) text += padded(printable(key.group, group_width), width);
    text += padded(key.head, 8) + fmt::format("{:>8}  ", key.sums.key);
    if (named) {
      text += padded(printable(key.sums.name, key_name_width), key_name_width + 2);
    }
    text += fmt::format("{:>8}", key.sums.queries);
    for (const double sum : key.sums.sums) {
      text += fmt::format("{:>12}{:>9}", number(sum),
                          number(sum / static_cast<double>(key.sums.queries)));
    }
    text += "\n";
  }
  return text;
}

void ExplainedKeys::add(const ExplainedKeys& more) {
  count += more.count;
  keys += more.keys;
  enough_count += more.enough_count;
  enough_keys += more.enough_keys;
}

const std::vector<SinkField>& sink_fields() {
  using Of = const SinkFigures&;
  static const auto shown = [](double value) {
    return std::isnan(value) ? std::string("-") : number(value);
  };
  static const std::vector<SinkField> fields = {
      {"share", "share of the attention on the first keys",
       [](Of of, double attention) {
         return attention > 0 ? percent(of.attention / attention) : std::string("-");
       }},
      {"|v|", "mean norm of their values",
       [](Of of, double) { return shown(of.norms / static_cast<double>(of.keys)); }},
      {"others", "mean norm of the other values",
       [](Of of, double) { return shown(of.other_norms / static_cast<double>(of.other_keys)); }},
      {"rank", "stable rank of the output", [](Of of, double) { return shown(of.stable_rank); }},
      {"without", "stable rank of the output without the first keys",
       [](Of of, double) { return shown(of.stable_rank_without); }},
      {"max |s|", "largest |score|", [](Of of, double) { return shown(of.largest_score); }}};
  return fields;
}

std::string left_out_text(Index masked_keys, Index padded_keys, Index padded_queries,
                          Index empty_queries) {
  std::string text;
  if (masked_keys > 0) {
    text += cli::counted(masked_keys, "key is", "keys are") +
            " masked from every query and left out.\n";
  }
  if (padded_keys + padded_queries > 0) {
    text += fmt::format("{} and {} are padding, and counted nowhere else.\n",
                        cli::counted(padded_keys, "key"),
                        cli::counted(padded_queries, "query", "queries"));
  }
  if (empty_queries > 0) {
    text += cli::counted(empty_queries, "query has", "queries have") + " no key to attend to.\n";
  }
  return text;
}

std::string conclusion_text(const std::vector<ExplainedKeys>& found, double epsilon,
                            const std::string& enough) {
  const ExplainedKeys& first = found.front();
  const bool of_enough = first.enough_keys > 0 && first.enough_keys < first.keys;
  std::string text;
  if (of_enough) {
    text += fmt::format("Among the {} with {}, ", cli::counted(first.enough_keys, "key"), enough);
  }
  for (std::size_t n = 0; n < found.size(); ++n) {
    const ExplainedKeys& of = found[n];
    // Groups may differ in their schemes, and so schemes in their keys.
    const bool other = of_enough && of.enough_keys != first.enough_keys;
    const std::string share = other       ? count_text(of.enough_count, of.enough_keys)
                              : of_enough ? count_text(of.enough_count)
                                          : count_text(of.count, of.keys);
    text += n == 0 ? fmt::format("{} explains away {} (c < {})", of.scheme, share, compact(epsilon))
                   : fmt::format(", {} {}", of.scheme, share);
  }
  text += ".\n";
  if (first.enough_keys == 0 && first.keys > 0) text += fmt::format("No key has {}.\n", enough);
  if (!of_enough) return text;
  text += fmt::format("Among all {}:", cli::counted(first.keys, "key"));
  for (std::size_t n = 0; n < found.size(); ++n) {
    const ExplainedKeys& of = found[n];
    text +=
        fmt::format("{} {} {}", n == 0 ? "" : ",", of.scheme,
                    of.keys == first.keys ? count_text(of.count) : count_text(of.count, of.keys));
  }
  return text + ".\n";
}

std::string tail_note(const ExplainedKeys& found, double epsilon, const std::string& enough) {
  const Index in_tail = found.count - found.enough_count;
  if (2 * in_tail <= found.count) return "";
  return fmt::format(
      "{} of the {} with c < {} under {} {} not have {}, so their small sums say little", in_tail,
      cli::counted(found.count, "key"), compact(epsilon), found.scheme,
      in_tail == 1 ? "does" : "do", enough);
}

}  // namespace attn::tools
