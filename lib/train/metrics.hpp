#pragma once

#include <array>
#include <span>

#include "tensor/shape.hpp"

namespace attn::train {

/// The tokens of one sequence, without padding.
using Tokens = std::span<const Index>;

/// The agreement of two sequences, each number in [0, 1], with m matches among the parts of both.
struct Rouge {
  double precision = 0;  ///< P = m/|parts of the candidate|, 0 if there are none
  double recall = 0;     ///< R = m/|parts of the reference|, 0 if there are none
  double f1 = 0;         ///< 2PR/(P + R), 0 where P + R = 0
};

/// ROUGE-N (Lin, 2004) with one reference: the parts are the n-grams. An n-gram that occurs x times
/// in the candidate and y times in the reference matches min(x, y) times. All 0 if a sequence is
/// shorter than n. Requires n >= 1.
Rouge rouge_n(Tokens candidate, Tokens reference, Index n);

/// ROUGE-L (Lin, 2004) with one reference: the parts are the tokens, and m is the length of the
/// longest common subsequence. All 0 if a sequence is empty. Time O(|candidate| |reference|),
/// memory of the shorter one.
Rouge rouge_l(Tokens candidate, Tokens reference);

/// F1 of ROUGE-1, ROUGE-2 and ROUGE-L, each a mean over pairs.
class RougeMean {
 public:
  struct F1 {
    double rouge_1;
    double rouge_2;
    double rouge_l;
  };

  void add(Tokens candidate, Tokens reference);

  Index count() const { return count_; }

  /// In [0, 1]; NaN without pairs.
  F1 mean() const;

 private:
  F1 sums_{};
  Index count_ = 0;
};

/// BLEU of a corpus with one reference each (Papineni et al., 2002), without smoothing:
/// exp(min(0, 1 − r/c) + ¼ Σ_{n=1..4} log p_n), r and c the tokens of all references and all
/// candidates, and p_n the matches of n-grams, counted as by rouge_n, over the n-grams of all
/// candidates.
class Bleu {
 public:
  void add(Tokens candidate, Tokens reference);

  /// p_n in [0, 1]; 0 if no candidate has n tokens. Requires 1 <= n <= 4.
  double precision(Index n) const;

  /// In [0, 1], not in percent; 0 if a p_n is 0, hence also without pairs or if no candidate has
  /// four tokens.
  double score() const;

 private:
  static constexpr Index longest = 4;

  struct Counts {
    Index matches = 0;
    Index all = 0;
  };

  std::array<Counts, longest> counts_;  ///< of n-grams, at n − 1
  Index candidate_length_ = 0;
  Index reference_length_ = 0;
};

/// The least number of tokens to insert, delete or replace that turns a into b (Levenshtein, 1966):
/// from ||a| − |b|| to max(|a|, |b|). Time O(|a| |b|), memory of the shorter one.
Index levenshtein(Tokens a, Tokens b);

/// Errors of outputs, compared token by token, such as the characters of a word.
class EditRate {
 public:
  void add(Tokens candidate, Tokens reference);

  Index count() const { return count_; }

  /// Σ levenshtein / Σ |reference|, the character error rate if tokens are characters. >= 0, and
  /// above 1 for long, wrong candidates. NaN while no reference has a token.
  double character_error_rate() const;

  /// The share of candidates that equal their reference, in [0, 1]; NaN without pairs.
  double word_accuracy() const;

 private:
  Index distance_ = 0;
  Index reference_length_ = 0;
  Index exact_ = 0;
  Index count_ = 0;
};

/// The accuracy of an answer that equals `matches` of ten human answers, as in the benchmark VQA
/// (Antol et al., 2015): the mean of min(1, m/3) over the ten ways to leave one human answer out,
/// with m matches among the other nine. In closed form min(1, 3·matches/10): 0, .3, .6, .9, 1, ….
/// Requires 0 <= matches <= 10.
double vqa_accuracy(Index matches);

/// exp(cross_entropy), for a mean cross-entropy in nats: >= 1, infinite above 709.78, NaN for NaN.
double perplexity(double cross_entropy);

/// cross_entropy / ln 2, for a mean cross-entropy per character in nats: >= 0, NaN for NaN.
double bits_per_character(double cross_entropy);

}  // namespace attn::train
