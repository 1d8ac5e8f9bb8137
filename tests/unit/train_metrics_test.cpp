// lib/train: metrics of sequences against counts by hand and plain evaluations of their
// definitions.

#include "train/metrics.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

using namespace attn;
using namespace attn::train;

namespace {

using TokenList = std::vector<Index>;
using ListPairs = std::vector<std::pair<TokenList, TokenList>>;

TokenList letters(const std::string& text) { return {text.begin(), text.end()}; }

// The same number for the same word, in all texts.
TokenList sentence(const std::string& text) {
  TokenList words;
  Index word = 0;
  for (const char letter : text + " ") {
    if (letter == ' ') {
      words.push_back(word);
      word = 0;
    } else {
      word = 256 * word + letter;
    }
  }
  return words;
}

// Few symbols, so that sequences have much in common, and all lengths from 0.
ListPairs random_pairs(std::uint64_t seed, int count, Index most_tokens) {
  std::mt19937_64 random(seed);
  const auto draw = [&](Index low, Index high) {
    return std::uniform_int_distribution<Index>(low, high)(random);
  };
  ListPairs pairs(static_cast<std::size_t>(count));
  for (auto& [candidate, reference] : pairs) {
    const Index symbols = draw(1, 4);
    for (TokenList* const words : {&candidate, &reference}) {
      words->resize(static_cast<std::size_t>(draw(0, most_tokens)));
      for (Index& word : *words) word = draw(-1, symbols - 2);
    }
    if (draw(0, 9) == 0) candidate = reference;
  }
  return pairs;
}

std::map<TokenList, Index> plain_ngrams(const TokenList& words, std::size_t n) {
  std::map<TokenList, Index> counts;
  for (std::size_t end = n; end <= words.size(); ++end) {
    ++counts[TokenList(words.begin() + static_cast<std::ptrdiff_t>(end - n),
                       words.begin() + static_cast<std::ptrdiff_t>(end))];
  }
  return counts;
}

Index plain_count(const TokenList& words, std::size_t n) {
  Index all = 0;
  for (const auto& [ngram, count] : plain_ngrams(words, n)) all += count;
  return all;
}

Index plain_matches(const TokenList& candidate, const TokenList& reference, std::size_t n) {
  std::map<TokenList, Index> left = plain_ngrams(reference, n);
  Index matches = 0;
  for (const auto& [ngram, count] : plain_ngrams(candidate, n)) {
    for (Index k = 0; k < count; ++k) {
      if (left[ngram]-- > 0) ++matches;
    }
  }
  return matches;
}

bool is_subsequence(const TokenList& part, const TokenList& whole) {
  std::size_t found = 0;
  for (const Index word : whole) {
    if (found < part.size() && part[found] == word) ++found;
  }
  return found == part.size();
}

// Tries all subsequences of the candidate.
Index plain_common_length(const TokenList& candidate, const TokenList& reference) {
  Index longest = 0;
  for (unsigned chosen = 0; chosen < 1U << candidate.size(); ++chosen) {
    TokenList part;
    for (std::size_t k = 0; k < candidate.size(); ++k) {
      if ((chosen >> k & 1U) != 0) part.push_back(candidate[k]);
    }
    if (is_subsequence(part, reference)) {
      longest = std::max(longest, static_cast<Index>(part.size()));
    }
  }
  return longest;
}

// From the last tokens of both, by its recursive definition.
class PlainLevenshtein {
 public:
  PlainLevenshtein(TokenList a, TokenList b) : a_(std::move(a)), b_(std::move(b)) {}

  Index operator()() { return of(a_.size(), b_.size()); }

 private:
  Index of(std::size_t i, std::size_t j) {
    if (i == 0) return static_cast<Index>(j);
    if (j == 0) return static_cast<Index>(i);
    const auto known = known_.find({i, j});
    if (known != known_.end()) return known->second;
    const Index found = a_[i - 1] == b_[j - 1]
                            ? of(i - 1, j - 1)
                            : 1 + std::min({of(i - 1, j), of(i, j - 1), of(i - 1, j - 1)});
    known_[{i, j}] = found;
    return found;
  }

  TokenList a_;
  TokenList b_;
  std::map<std::pair<std::size_t, std::size_t>, Index> known_;
};

double plain_share(Index part, Index all) {
  return all == 0 ? 0 : static_cast<double>(part) / static_cast<double>(all);
}

double plain_f1(double p, double r) { return p + r == 0 ? 0 : 2 * p * r / (p + r); }

// NaN is close to nothing.
bool close_to(double value, double expected, double error = 1e-14) {
  return std::abs(value - expected) <= error;
}

void check_rouge(const Rouge& found, Index matches, Index candidate_parts, Index reference_parts) {
  const double p = plain_share(matches, candidate_parts);
  const double r = plain_share(matches, reference_parts);
  CHECK(close_to(found.precision, p));
  CHECK(close_to(found.recall, r));
  CHECK(close_to(found.f1, plain_f1(p, r)));
}

Bleu bleu_of(const ListPairs& pairs) {
  Bleu bleu;
  for (const auto& [candidate, reference] : pairs) bleu.add(candidate, reference);
  return bleu;
}

// The product of the roots and of the penalty, each by itself.
double plain_bleu(const ListPairs& pairs) {
  double product = 1;
  for (std::size_t n = 1; n <= 4; ++n) {
    Index matches = 0;
    Index all = 0;
    for (const auto& [candidate, reference] : pairs) {
      matches += plain_matches(candidate, reference, n);
      all += plain_count(candidate, n);
    }
    product *= std::pow(plain_share(matches, all), 0.25);
  }
  double c = 0;
  double r = 0;
  for (const auto& [candidate, reference] : pairs) {
    c += static_cast<double>(candidate.size());
    r += static_cast<double>(reference.size());
  }
  return product > 0 && c < r ? product * std::exp(1 - r / c) : product;
}

}  // namespace

TEST_CASE("ROUGE of sentences counted by hand") {
  // Lin (2004), section 3.1: both candidates have the same bigrams, and ROUGE-L tells them apart.
  const TokenList reference = sentence("police killed the gunman");
  const TokenList near_one = sentence("police kill the gunman");
  const TokenList far_one = sentence("the gunman kill police");
  CHECK(close_to(rouge_l(near_one, reference).f1, 3.0 / 4));
  CHECK(close_to(rouge_l(far_one, reference).f1, 2.0 / 4));
  CHECK(close_to(rouge_n(near_one, reference, 2).f1, 1.0 / 3));
  CHECK(close_to(rouge_n(far_one, reference, 2).f1, 1.0 / 3));
  // Each "the" of the reference matches once: 2 of 7 and 2 of 6 tokens.
  const TokenList cat = sentence("the cat is on the mat");
  const TokenList the(7, cat[0]);
  const Rouge clipped = rouge_n(the, cat, 1);
  CHECK(close_to(clipped.precision, 2.0 / 7));
  CHECK(close_to(clipped.recall, 2.0 / 6));
  CHECK(close_to(clipped.f1, 4.0 / 13));
  CHECK(rouge_n(the, cat, 2).f1 == 0);
}

TEST_CASE("longest common subsequences from the literature") {
  // Cormen, Leiserson, Rivest, Stein: Introduction to Algorithms, section on this problem.
  const TokenList a = letters("ABCBDAB");
  const TokenList b = letters("BDCABA");
  CHECK(close_to(rouge_l(a, b).precision, 4.0 / 7));
  CHECK(close_to(rouge_l(a, b).recall, 4.0 / 6));
  const TokenList first = letters("ACCGGTCGAGTGCGCGGAAGCCGGCCGAA");
  const TokenList second = letters("GTCGTTCGGAATGCCGTTGCTCTGTAAA");
  CHECK(close_to(rouge_l(first, second).precision, 20.0 / 29));
  CHECK(close_to(rouge_l(first, second).recall, 20.0 / 28));
}

TEST_CASE("ROUGE agrees with its definition") {
  for (const auto& [candidate, reference] : random_pairs(1, 2000, 9)) {
    for (std::size_t n = 1; n <= 5; ++n) {
      check_rouge(rouge_n(candidate, reference, static_cast<Index>(n)),
                  plain_matches(candidate, reference, n), plain_count(candidate, n),
                  plain_count(reference, n));
    }
    check_rouge(rouge_l(candidate, reference), plain_common_length(candidate, reference),
                static_cast<Index>(candidate.size()), static_cast<Index>(reference.size()));
  }
}

TEST_CASE("swapped sequences swap precision and recall") {
  const auto check_swapped = [](const Rouge& one, const Rouge& other) {
    CHECK(one.precision == other.recall);
    CHECK(one.recall == other.precision);
    CHECK(one.f1 == other.f1);
  };
  for (const auto& [a, b] : random_pairs(2, 300, 40)) {
    check_swapped(rouge_n(a, b, 2), rouge_n(b, a, 2));
    check_swapped(rouge_l(a, b), rouge_l(b, a));
  }
}

TEST_CASE("ROUGE of sequences that are empty, short, equal or of one token") {
  const TokenList none;
  const TokenList one = {5};
  const TokenList three = {1, 2, 3};
  const TokenList fours(4, 8);
  const TokenList sixes(6, 8);
  const auto check_zero = [](const Rouge& found) {
    CHECK(found.precision == 0);
    CHECK(found.recall == 0);
    CHECK(found.f1 == 0);
  };
  for (const auto& [a, b] : ListPairs{{none, none}, {none, three}, {three, none}, {one, three}}) {
    check_zero(rouge_n(a, b, 1));
    check_zero(rouge_n(a, b, 2));
    check_zero(rouge_l(a, b));
  }
  check_zero(rouge_n(three, three, 4));
  check_zero(rouge_n(one, one, 2));
  CHECK(rouge_n(three, three, 3).f1 == 1);
  CHECK(rouge_l(three, three).f1 == 1);
  // 3 bigrams of 5 match, and 4 tokens of 6.
  CHECK(close_to(rouge_n(fours, sixes, 2).recall, 3.0 / 5));
  CHECK(rouge_n(fours, sixes, 2).precision == 1);
  CHECK(close_to(rouge_l(fours, sixes).recall, 4.0 / 6));
}

TEST_CASE("the mean of ROUGE is over pairs, not over tokens") {
  RougeMean mean;
  CHECK(std::isnan(mean.mean().rouge_1));
  CHECK(std::isnan(mean.mean().rouge_2));
  CHECK(std::isnan(mean.mean().rouge_l));
  mean.add(letters("ab"), letters("ab"));
  mean.add(letters("badc"), letters("abcd"));
  mean.add(letters(""), letters("abcdefgh"));
  CHECK(mean.count() == 3);
  CHECK(close_to(mean.mean().rouge_1, (1.0 + 1 + 0) / 3));
  CHECK(close_to(mean.mean().rouge_2, (1.0 + 0 + 0) / 3));
  CHECK(close_to(mean.mean().rouge_l, (1.0 + 0.5 + 0) / 3));
}

TEST_CASE("BLEU of sentences counted by hand") {
  // Papineni et al. (2002), section 2.1, with the first of its references.
  Bleu clipped;
  clipped.add(sentence("the the the the the the the"), sentence("the cat is on the mat"));
  CHECK(close_to(clipped.precision(1), 2.0 / 7));
  CHECK(clipped.precision(2) == 0);
  CHECK(clipped.score() == 0);
  // a, b, c, d, f; ab, bc, cd; abc, bcd; abcd: the product of the four is 1/12.
  Bleu bleu;
  bleu.add(letters("abcdxf"), letters("abcdefg"));
  CHECK(close_to(bleu.precision(1), 5.0 / 6));
  CHECK(close_to(bleu.precision(2), 3.0 / 5));
  CHECK(close_to(bleu.precision(3), 2.0 / 4));
  CHECK(close_to(bleu.precision(4), 1.0 / 3));
  CHECK(close_to(bleu.score(), std::exp(-1.0 / 6) * std::pow(1.0 / 12, 0.25)));
}

TEST_CASE("BLEU sums counts over the corpus") {
  // By itself the second pair has no match of four tokens, and the third not even four tokens.
  const ListPairs pairs = {{letters("abcde"), letters("abcde")},
                           {letters("abcxde"), letters("abcde")},
                           {letters("ab"), letters("abc")}};
  const Bleu bleu = bleu_of(pairs);
  CHECK(close_to(bleu.precision(1), 12.0 / 13));
  CHECK(close_to(bleu.precision(2), 8.0 / 10));
  CHECK(close_to(bleu.precision(3), 4.0 / 7));
  CHECK(close_to(bleu.precision(4), 2.0 / 5));
  // 13 tokens each: no penalty.
  CHECK(close_to(bleu.score(), std::pow(12.0 / 13 * 8 / 10 * 4 / 7 * 2 / 5, 0.25)));
}

TEST_CASE("BLEU agrees with its definition") {
  int positive = 0;
  for (std::uint64_t seed = 10; seed < 40; ++seed) {
    for (const int count : {1, 3, 20}) {
      const ListPairs pairs = random_pairs(seed, count, 25);
      const double expected = plain_bleu(pairs);
      if (expected > 0) ++positive;
      CHECK(close_to(bleu_of(pairs).score(), expected));
    }
  }
  CHECK(positive >= 60);
}

TEST_CASE("BLEU of what is empty, short, equal, or longer than its reference") {
  const TokenList none;
  const TokenList three = {1, 2, 3};
  const TokenList four = {1, 2, 3, 4};
  CHECK(Bleu().score() == 0);
  CHECK(Bleu().precision(1) == 0);
  CHECK(bleu_of({{none, none}}).score() == 0);
  CHECK(bleu_of({{none, four}}).score() == 0);
  CHECK(bleu_of({{four, none}}).score() == 0);
  CHECK(bleu_of({{three, three}}).score() == 0);
  CHECK(bleu_of({{four, four}}).score() == 1);
  CHECK(bleu_of({{four, four}, {none, none}}).score() == 1);
  CHECK(close_to(bleu_of({{four, four}, {none, four}}).score(), std::exp(-1.0)));
  // Too long: only the precisions 4/5, 3/4, 2/3, 1/2 fall.
  CHECK(close_to(bleu_of({{{1, 2, 3, 4, 5}, four}}).score(), std::pow(0.2, 0.25)));
  CHECK(close_to(bleu_of({{TokenList(6, 7), TokenList(4, 7)}}).score(),
                 std::pow(4.0 / 6 * 3 / 5 * 2 / 4 * 1 / 3, 0.25)));
}

TEST_CASE("edit distances from the literature") {
  const auto distance = [](const std::string& a, const std::string& b) {
    return levenshtein(letters(a), letters(b));
  };
  CHECK(distance("kitten", "sitting") == 3);
  CHECK(distance("saturday", "sunday") == 3);
  CHECK(distance("intention", "execution") == 5);
  CHECK(distance("", "") == 0);
  CHECK(distance("", "abc") == 3);
  CHECK(distance("abc", "") == 3);
  CHECK(distance("abc", "abc") == 0);
  CHECK(distance("abc", "xyz") == 3);
  CHECK(distance("aaaa", "aa") == 2);
  // Two replacements: neighbours that change places are no operation of their own.
  CHECK(distance("ab", "ba") == 2);
}

TEST_CASE("edit distances agree with their definition, and are symmetric") {
  for (const auto& [a, b] : random_pairs(3, 1000, 14)) {
    CHECK(levenshtein(a, b) == PlainLevenshtein(a, b)());
    CHECK(levenshtein(a, b) == levenshtein(b, a));
  }
}

TEST_CASE("error rates are of the whole corpus") {
  EditRate rate;
  CHECK(std::isnan(rate.character_error_rate()));
  CHECK(std::isnan(rate.word_accuracy()));
  rate.add(letters("ab"), letters(""));
  CHECK(std::isnan(rate.character_error_rate()));
  CHECK(rate.word_accuracy() == 0);
  rate.add(letters("kitten"), letters("sitting"));
  rate.add(letters("abc"), letters("abc"));
  rate.add(letters(""), letters(""));
  CHECK(rate.count() == 4);
  CHECK(close_to(rate.character_error_rate(), (2.0 + 3 + 0 + 0) / (0 + 7 + 3 + 0)));
  CHECK(rate.word_accuracy() == 0.5);
  EditRate wrong;
  wrong.add(letters("xxxxxx"), letters("ab"));
  CHECK(wrong.character_error_rate() == 3);
  CHECK(wrong.word_accuracy() == 0);
}

TEST_CASE("VQA's accuracy is a mean over ten sets of nine answers") {
  for (int matches = 0; matches <= 10; ++matches) {
    double sum = 0;
    for (int left_out = 0; left_out < 10; ++left_out) {
      int among_nine = 0;
      for (int answer = 0; answer < matches; ++answer) {
        if (answer != left_out) ++among_nine;
      }
      sum += std::min(1.0, among_nine / 3.0);
    }
    CAPTURE(matches);
    CHECK(close_to(vqa_accuracy(matches), sum / 10));
  }
  CHECK(vqa_accuracy(0) == 0);
  CHECK(vqa_accuracy(3) == 0.9);
  CHECK(vqa_accuracy(4) == 1);
}

TEST_CASE("perplexity and bits per character") {
  CHECK(perplexity(0) == 1);
  CHECK(bits_per_character(0) == 0);
  // A uniform guess among 65 characters.
  CHECK(close_to(perplexity(std::log(65.0)), 65, 1e-12));
  CHECK(close_to(bits_per_character(std::log(65.0)), 6.0223678130284543));
  CHECK(close_to(std::exp2(bits_per_character(1.3)), perplexity(1.3)));
  CHECK(std::isinf(perplexity(710)));
  CHECK(std::isfinite(perplexity(709.78)));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(std::isnan(perplexity(nan)));
  CHECK(std::isnan(bits_per_character(nan)));
}
