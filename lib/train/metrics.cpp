#include "train/metrics.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numbers>
#include <utility>
#include <vector>

namespace attn::train {
namespace {

Index length_of(Tokens tokens) { return static_cast<Index>(tokens.size()); }

Index ngram_count(Tokens tokens, Index n) { return std::max<Index>(length_of(tokens) - n + 1, 0); }

bool lexicographically_less(Tokens a, Tokens b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

std::vector<Tokens> sorted_ngrams(Tokens tokens, Index n) {
  std::vector<Tokens> ngrams;
  const Index count = ngram_count(tokens, n);
  ngrams.reserve(static_cast<std::size_t>(count));
  for (Index first = 0; first < count; ++first) {
    ngrams.push_back(tokens.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(n)));
  }
  std::sort(ngrams.begin(), ngrams.end(), lexicographically_less);
  return ngrams;
}

Index clipped_matches(Tokens candidate, Tokens reference, Index n) {
  const std::vector<Tokens> a = sorted_ngrams(candidate, n);
  const std::vector<Tokens> b = sorted_ngrams(reference, n);
  // The intersection keeps min(x, y) of a part that occurs x times in one and y times in the other.
  std::vector<Tokens> common;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(common),
                        lexicographically_less);
  return static_cast<Index>(common.size());
}

Index common_subsequence_length(Tokens a, Tokens b) {
  if (a.size() < b.size()) std::swap(a, b);
  // Element j: for the tokens of a so far and the first j of b.
  std::vector<Index> lengths(b.size() + 1, 0);
  for (const Index token : a) {
    Index diagonal = 0;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const Index above = lengths[j + 1];
      lengths[j + 1] = token == b[j] ? diagonal + 1 : std::max(above, lengths[j]);
      diagonal = above;
    }
  }
  return lengths.back();
}

double share(Index part, Index all) { return static_cast<double>(part) / static_cast<double>(all); }

double share_or_nan(Index part, Index all) {
  return all > 0 ? share(part, all) : std::numeric_limits<double>::quiet_NaN();
}

Rouge rouge(Index matches, Index candidate_parts, Index reference_parts) {
  if (matches == 0) return {};
  // 2PR/(P + R) as one quotient with m: rounded once.
  return {share(matches, candidate_parts), share(matches, reference_parts),
          share(2 * matches, candidate_parts + reference_parts)};
}

}  // namespace

Rouge rouge_n(Tokens candidate, Tokens reference, Index n) {
  return rouge(clipped_matches(candidate, reference, n), ngram_count(candidate, n),
               ngram_count(reference, n));
}

Rouge rouge_l(Tokens candidate, Tokens reference) {
  return rouge(common_subsequence_length(candidate, reference), length_of(candidate),
               length_of(reference));
}

void RougeMean::add(Tokens candidate, Tokens reference) {
  sums_.rouge_1 += rouge_n(candidate, reference, 1).f1;
  sums_.rouge_2 += rouge_n(candidate, reference, 2).f1;
  sums_.rouge_l += rouge_l(candidate, reference).f1;
  ++count_;
}

RougeMean::F1 RougeMean::mean() const {
  const auto count = static_cast<double>(count_);  // 0/0 is the NaN of no pairs
  return {sums_.rouge_1 / count, sums_.rouge_2 / count, sums_.rouge_l / count};
}

void Bleu::add(Tokens candidate, Tokens reference) {
  for (Index n = 1; n <= longest; ++n) {
    Counts& counts = counts_[static_cast<std::size_t>(n - 1)];
    counts.matches += clipped_matches(candidate, reference, n);
    counts.all += ngram_count(candidate, n);
  }
  candidate_length_ += length_of(candidate);
  reference_length_ += length_of(reference);
}

double Bleu::precision(Index n) const {
  const Counts& counts = counts_[static_cast<std::size_t>(n - 1)];
  return counts.matches > 0 ? share(counts.matches, counts.all) : 0;
}

double Bleu::score() const {
  double log_sum = 0;
  for (Index n = 1; n <= longest; ++n) {
    if (precision(n) == 0) return 0;
    log_sum += std::log(precision(n));
  }
  const double log_brevity = std::min(0.0, 1 - share(reference_length_, candidate_length_));
  return std::exp(log_brevity + log_sum / static_cast<double>(longest));
}

Index levenshtein(Tokens a, Tokens b) {
  if (a.size() < b.size()) std::swap(a, b);
  // Element j: from the tokens of a so far to the first j of b.
  std::vector<Index> distances(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) distances[j] = static_cast<Index>(j);
  for (const Index token : a) {
    Index diagonal = distances[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const Index above = distances[j + 1];
      const Index replaced = diagonal + (token == b[j] ? 0 : 1);
      distances[j + 1] = std::min(replaced, std::min(above, distances[j]) + 1);
      diagonal = above;
    }
  }
  return distances.back();
}

void EditRate::add(Tokens candidate, Tokens reference) {
  const Index distance = levenshtein(candidate, reference);
  distance_ += distance;
  reference_length_ += length_of(reference);
  if (distance == 0) ++exact_;
  ++count_;
}

double EditRate::character_error_rate() const { return share_or_nan(distance_, reference_length_); }

double EditRate::word_accuracy() const { return share_or_nan(exact_, count_); }

double vqa_accuracy(Index matches) {
  // m = matches − 1 in `matches` of the ten ways, and m = matches in the others: for matches <= 3,
  // (matches (matches − 1) + (10 − matches) matches)/30 = 9 matches/30.
  return std::min(1.0, share(3 * matches, 10));
}

double perplexity(double cross_entropy) { return std::exp(cross_entropy); }

double bits_per_character(double cross_entropy) { return cross_entropy / std::numbers::ln2; }

}  // namespace attn::train
