#include "stats/word_alignment.hpp"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace attn {
namespace {

template <class Number>
double ratio(Number part, Number whole) {
  if (whole == 0) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(part) / static_cast<double>(whole);
}

std::pair<Index, Index> words(const WordLink& link) { return {link.target, link.source}; }

bool is_before(const WordLink& a, const WordLink& b) { return words(a) < words(b); }

// The links of one target word in a set.
std::span<const WordLink> links_of(std::span<const WordLink> set, Index target) {
  const auto first = std::partition_point(
      set.begin(), set.end(), [&](const WordLink& link) { return link.target < target; });
  const auto end = std::partition_point(
      first, set.end(), [&](const WordLink& link) { return link.target == target; });
  return {first, end};
}

Index count_sure(std::span<const WordLink> gold) {
  return std::count_if(gold.begin(), gold.end(), [](const WordLink& link) { return link.sure; });
}

}  // namespace

std::vector<WordLink> link_set(std::vector<WordLink> links) {
  // Among equal words, a sure link comes first, which unique keeps.
  std::sort(links.begin(), links.end(), [](const WordLink& a, const WordLink& b) {
    return std::tuple(words(a), b.sure) < std::tuple(words(b), a.sure);
  });
  const auto same = [](const WordLink& a, const WordLink& b) { return words(a) == words(b); };
  links.erase(std::unique(links.begin(), links.end(), same), links.end());
  return links;
}

void AlignmentCounts::add(const AlignmentCounts& more) {
  links += more.links;
  sure += more.sure;
  links_sure += more.links_sure;
  links_possible += more.links_possible;
  words += more.words;
  matches += more.matches;
  weight += more.weight;
  linked_weight += more.linked_weight;
}

double AlignmentCounts::error_rate() const {
  return 1 - ratio(links_sure + links_possible, links + sure);
}

double AlignmentCounts::precision() const { return ratio(links_possible, links); }
double AlignmentCounts::recall() const { return ratio(links_sure, sure); }
double AlignmentCounts::match() const { return ratio(matches, words); }
double AlignmentCounts::mass() const { return ratio(linked_weight, weight); }

AlignmentCounts compare_links(std::span<const WordLink> links, std::span<const WordLink> gold,
                              WordShift shift) {
  AlignmentCounts counts;
  counts.links = static_cast<Index>(links.size());
  counts.sure = count_sure(gold);
  for (const WordLink& link : links) {
    const WordLink moved = {link.source + shift.source, link.target + shift.target};
    const auto found = std::lower_bound(gold.begin(), gold.end(), moved, is_before);
    if (found == gold.end() || words(*found) != words(moved)) continue;
    ++counts.links_possible;
    if (found->sure) ++counts.links_sure;
  }
  return counts;
}

WeightComparison::WeightComparison(std::vector<WordShift> shifts, std::optional<double> threshold)
    : shifts_(std::move(shifts)), threshold_(threshold), counts_(shifts_.size()) {}

void WeightComparison::begin(std::span<const WordLink> gold) {
  gold_ = gold;
  target_ = 0;
  for (AlignmentCounts& counts : counts_) counts.sure += count_sure(gold);
}

void WeightComparison::add_row(std::span<const double> weights) {
  const auto length = static_cast<Index>(weights.size());
  const auto largest = std::max_element(weights.begin(), weights.end());
  const bool has_heaviest = largest != weights.end() && *largest > 0;
  const Index heaviest = has_heaviest ? largest - weights.begin() : -1;
  const auto is_link = [&](Index source, double weight) {
    return threshold_ ? weight > *threshold_ : source == heaviest;
  };
  AlignmentCounts row;
  row.words = 1;
  for (Index source = 0; source < length; ++source) {
    const double weight = weights[static_cast<std::size_t>(source)];
    row.weight += weight;
    if (is_link(source, weight)) ++row.links;
  }
  for (std::size_t n = 0; n < shifts_.size(); ++n) {
    AlignmentCounts found = row;
    for (const WordLink& link : links_of(gold_, target_ + shifts_[n].target)) {
      const Index source = link.source - shifts_[n].source;
      if (source < 0 || source >= length) continue;
      const double weight = weights[static_cast<std::size_t>(source)];
      found.linked_weight += weight;
      if (source == heaviest) ++found.matches;
      if (!is_link(source, weight)) continue;
      ++found.links_possible;
      if (link.sure) ++found.links_sure;
    }
    counts_[n].add(found);
  }
  ++target_;
}

}  // namespace attn
