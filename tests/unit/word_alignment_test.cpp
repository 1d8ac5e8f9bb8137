#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "stats/word_alignment.hpp"

using namespace attn;

namespace {

using WordLinks = std::vector<WordLink>;
using WordPairs = std::set<std::pair<Index, Index>>;  // source, target

constexpr bool only_possible = false;  // of a link: not sure

// The definition, on sets.
AlignmentCounts counts_on_sets(const WordPairs& answer, const WordPairs& sure,
                               const WordPairs& all) {
  AlignmentCounts counts;
  counts.links = static_cast<Index>(answer.size());
  counts.sure = static_cast<Index>(sure.size());
  for (const auto& link : answer) {
    counts.links_sure += static_cast<Index>(sure.count(link));
    counts.links_possible += static_cast<Index>(all.count(link));
  }
  return counts;
}

WordPairs word_pairs_of(const WordLinks& links, bool only_sure = false) {
  WordPairs pairs;
  for (const WordLink& link : links) {
    if (link.sure || !only_sure) pairs.insert({link.source, link.target});
  }
  return pairs;
}

WordPairs moved_words(const WordPairs& pairs, WordShift shift) {
  WordPairs result;
  for (const auto& [source, target] : pairs) {
    result.insert({source + shift.source, target + shift.target});
  }
  return result;
}

void check_same_links(const AlignmentCounts& found, const AlignmentCounts& expected) {
  CHECK(found.links == expected.links);
  CHECK(found.sure == expected.sure);
  CHECK(found.links_sure == expected.links_sure);
  CHECK(found.links_possible == expected.links_possible);
}

using WeightRows = std::vector<std::vector<double>>;

AlignmentCounts counts_of(const WeightRows& weights, const WordLinks& gold,
                          std::optional<double> threshold = {}, WordShift shift = {}) {
  WeightComparison comparison({shift}, threshold);
  const WordLinks set = link_set(gold);
  comparison.begin(set);
  for (const std::vector<double>& row : weights) comparison.add_row(row);
  return comparison.counts().front();
}

const std::vector<WordShift> word_shifts = {{0, 0}, {-2, 0}, {-1, 0}, {1, 0},
                                            {2, 0}, {0, -1}, {0, 1},  {1, -2}};

}  // namespace

TEST_CASE("links as a set: in order, each pair of words once, sure before possible") {
  CHECK(link_set({}).empty());
  CHECK(link_set({{2, 0}, {1, 1, only_possible}, {0, 1}, {2, 0}, {1, 1}, {1, 1, only_possible}}) ==
        WordLinks{{2, 0}, {0, 1}, {1, 1}});
  CHECK(link_set({{0, 0, only_possible}, {0, 0, only_possible}}) ==
        WordLinks{{0, 0, only_possible}});
}

TEST_CASE("the error rate by hand") {
  const WordLinks gold = link_set({{0, 0}, {1, 1}, {2, 1, only_possible}});
  // A = {0-0, 2-1, 2-2}: one of two sure links, two possible ones; 1 - (1 + 2)/(3 + 2).
  const AlignmentCounts counts = compare_links(link_set({{0, 0}, {2, 1}, {2, 2}}), gold);
  CHECK(counts.error_rate() == doctest::Approx(0.4));
  CHECK(counts.precision() == doctest::Approx(2.0 / 3));
  CHECK(counts.recall() == 0.5);
  CHECK(std::isnan(counts.match()));
  CHECK(std::isnan(counts.mass()));
  // Possible links may be left out or be there.
  CHECK(compare_links(link_set({{0, 0}, {1, 1}}), gold).error_rate() == 0);
  CHECK(compare_links(gold, gold).error_rate() == 0);
  CHECK(compare_links(link_set({{0, 1}, {1, 0}}), gold).error_rate() == 1);
}

TEST_CASE("measures without a denominator are NaN") {
  const AlignmentCounts nothing = compare_links({}, {});
  CHECK(std::isnan(nothing.error_rate()));
  CHECK(std::isnan(nothing.precision()));
  CHECK(std::isnan(nothing.recall()));
  const WordLinks gold = {{0, 0}};
  CHECK(compare_links({}, gold).error_rate() == 1);
  CHECK(std::isnan(compare_links({}, gold).precision()));
  CHECK(compare_links({}, gold).recall() == 0);
  // No sure link: the error rate is 1 less the precision.
  const WordLinks doubtful = {{0, 0, only_possible}};
  const AlignmentCounts counts = compare_links(link_set({{0, 0}, {1, 0}}), doubtful);
  CHECK(counts.error_rate() == 0.5);
  CHECK(counts.precision() == 0.5);
  CHECK(std::isnan(counts.recall()));
  CHECK(counts_of({{0, 0}}, doubtful).match() == 0);
  CHECK(std::isnan(counts_of({{0, 0}}, doubtful).mass()));
  CHECK(std::isnan(counts_of({}, gold).match()));
}

TEST_CASE("a link that leaves the sentence counts, and is never right") {
  const WordLinks gold = {{0, 0}, {1, 1}};
  const AlignmentCounts counts = compare_links(gold, gold, {-1, -1});
  CHECK(counts.links == 2);
  CHECK(counts.links_possible == 1);
  const WeightRows identity = {{1, 0}, {0, 1}};
  const AlignmentCounts of_weights = counts_of(identity, gold, {}, {-1, -1});
  check_same_links(of_weights, counts);
  CHECK(of_weights.matches == 1);
  CHECK(of_weights.mass() == 0.5);
}

TEST_CASE("an answer that is off by one is right when it is moved back") {
  const WordLinks gold = {{0, 0}, {1, 1}, {2, 2}};
  const WordLinks late = {{1, 0}, {2, 1}, {3, 2}};
  CHECK(compare_links(late, gold).error_rate() == 1);
  CHECK(compare_links(late, gold, {-1, 0}).error_rate() == 0);
  CHECK(compare_links(late, gold, {0, 1}).links_possible == 2);
}

TEST_CASE("the heaviest word links: the first of equals, none where all weights are 0") {
  const WordLinks gold = {{0, 0}, {2, 1}, {0, 2}};
  const AlignmentCounts counts = counts_of({{0.5, 0.5, 0}, {0.4, 0.2, 0.4}, {0, 0, 0}}, gold);
  CHECK(counts.links == 2);
  CHECK(counts.links_possible == 1);
  CHECK(counts.words == 3);
  CHECK(counts.matches == 1);
  CHECK(counts.mass() == doctest::Approx(0.45));
}

TEST_CASE("a threshold makes the links, not the matches") {
  const WordLinks gold = {{0, 0}, {1, 0, only_possible}};
  const WeightRows weights = {{0.25, 0.5, 0.25}};
  CHECK(counts_of(weights, gold, 0.2).links == 3);
  CHECK(counts_of(weights, gold, 0.2).links_sure == 1);
  CHECK(counts_of(weights, gold, 0.25).links == 1);  // above it, not at it
  CHECK(counts_of(weights, gold, 0.5).links == 0);
  CHECK(counts_of(weights, gold, 0.5).matches == 1);
  CHECK(counts_of(weights, gold, 0.5).mass() == 0.75);
}

TEST_CASE("weights and links agree with the definition on sets, for every shift") {
  std::mt19937 random(7);
  const auto below = [&](Index end) {
    return std::uniform_int_distribution<Index>(0, end - 1)(random);
  };
  for (int trial = 0; trial < 60; ++trial) {
    const std::optional<double> threshold =
        trial % 3 == 0 ? std::optional<double>(0.4) : std::nullopt;
    WeightComparison comparison(word_shifts, threshold);
    std::vector<AlignmentCounts> expected(word_shifts.size());
    std::vector<WordLinks> kept;
    for (int pair = 0; pair < 3; ++pair) {
      const Index targets = below(6);
      const Index sources = below(6);
      WordLinks gold;
      for (Index n = targets * sources == 0 ? 0 : below(9); n > 0; --n) {
        gold.push_back({below(sources), below(targets), below(2) == 1});
      }
      kept.push_back(link_set(gold));
      const WordPairs all = word_pairs_of(gold);
      const WordPairs sure = word_pairs_of(gold, true);
      WordPairs answer, heaviest;
      WeightRows weights;
      for (Index j = 0; j < targets; ++j) {
        std::vector<double> row;
        for (Index i = 0; i < sources; ++i) row.push_back(static_cast<double>(below(4)) / 4);
        for (Index i = 0; i < sources; ++i) {
          if (threshold && row[static_cast<std::size_t>(i)] > *threshold) answer.insert({i, j});
        }
        const auto largest = std::max_element(row.begin(), row.end());
        if (largest != row.end() && *largest > 0) heaviest.insert({largest - row.begin(), j});
        weights.push_back(row);
      }
      if (!threshold) answer = heaviest;
      comparison.begin(kept.back());
      for (const std::vector<double>& row : weights) comparison.add_row(row);
      WordLinks links;
      for (const auto& [source, target] : answer) links.push_back({source, target});
      for (std::size_t n = 0; n < word_shifts.size(); ++n) {
        AlignmentCounts counts = counts_on_sets(moved_words(answer, word_shifts[n]), sure, all);
        check_same_links(compare_links(link_set(links), kept.back(), word_shifts[n]), counts);
        counts.words = targets;
        counts.matches =
            counts_on_sets(moved_words(heaviest, word_shifts[n]), sure, all).links_possible;
        for (Index j = 0; j < targets; ++j) {
          for (Index i = 0; i < sources; ++i) {
            const double weight = weights[static_cast<std::size_t>(j)][static_cast<std::size_t>(i)];
            counts.weight += weight;
            if (all.count({i + word_shifts[n].source, j + word_shifts[n].target}) > 0) {
              counts.linked_weight += weight;
            }
          }
        }
        expected[n].add(counts);
      }
    }
    for (std::size_t n = 0; n < word_shifts.size(); ++n) {
      CAPTURE(n);
      const AlignmentCounts& found = comparison.counts()[n];
      check_same_links(found, expected[n]);
      CHECK(found.words == expected[n].words);
      CHECK(found.matches == expected[n].matches);
      CHECK(found.weight == expected[n].weight);  // multiples of 1/4
      CHECK(found.linked_weight == expected[n].linked_weight);
    }
  }
}
