#pragma once

#include <optional>
#include <span>
#include <vector>

#include "tensor/shape.hpp"

// Word alignments against links set by hand (TN §2.4): a sentence pair has I source words and J
// target words, the links A of an answer, the sure links S and the possible links P, S ⊆ P.

namespace attn {

/// A source word and a target word that belong together, both counted from 0. Gold links that are
/// not sure are possible only.
struct WordLink {
  Index source = 0;
  Index target = 0;
  bool sure = true;

  friend bool operator==(const WordLink&, const WordLink&) = default;
};

/// The links of one sentence pair as a set: by target word, then by source word, each pair of words
/// once, and sure if any of its links is.
std::vector<WordLink> link_set(std::vector<WordLink> links);

/// The number of places by which the words of an answer are moved before the comparison.
struct WordShift {
  Index source = 0;
  Index target = 0;
};

/// Counts over any number of sentence pairs, and measures from them. A measure with denominator 0
/// is NaN.
struct AlignmentCounts {
  Index links = 0;           ///< |A|
  Index sure = 0;            ///< |S|
  Index links_sure = 0;      ///< |A ∩ S|
  Index links_possible = 0;  ///< |A ∩ P|

  // Counts of weights; 0 for an answer with links only.
  Index words = 0;           ///< target words
  Index matches = 0;         ///< target words whose heaviest source word is linked, in P
  double weight = 0;         ///< sum of the weights
  double linked_weight = 0;  ///< sum of the weights of linked words, in P

  void add(const AlignmentCounts& more);

  /// AER = 1 − (|A ∩ S| + |A ∩ P|)/(|A| + |S|): 0 if S ⊆ A ⊆ P.
  double error_rate() const;
  double precision() const;  ///< |A ∩ P|/|A|
  double recall() const;     ///< |A ∩ S|/|S|
  double match() const;      ///< matches/words
  double mass() const;       ///< linked_weight/weight: for rows of sum 1, the mean over the words
};

/// Compares the links A of a sentence pair, moved by `shift`, with its gold links; both are sets
/// from link_set. Whether a link of A is sure does not matter. A link moved out of the sentence
/// stays in A and is never right.
AlignmentCounts compare_links(std::span<const WordLink> links, std::span<const WordLink> gold,
                              WordShift shift = {});

/// Compares weights (J, I) of sentence pairs with their gold links, for several shifts at a time.
/// Works row by row and keeps no rows.
class WeightComparison {
 public:
  /// A holds the heaviest source word of each target word, the first of equals, and none if all
  /// weights are 0; or, with a threshold, each pair of words whose weight is above it. Shifts move
  /// the weights with their links.
  WeightComparison(std::vector<WordShift> shifts, std::optional<double> threshold);

  /// Begins a sentence pair. `gold` is a set from link_set, and must outlive the rows.
  void begin(std::span<const WordLink> gold);

  /// Adds the weights of the next target word, I finite numbers ≥ 0.
  void add_row(std::span<const double> weights);

  const std::vector<WordShift>& shifts() const { return shifts_; }
  const std::vector<AlignmentCounts>& counts() const { return counts_; }  ///< one for each shift

 private:
  std::vector<WordShift> shifts_;
  std::optional<double> threshold_;
  std::vector<AlignmentCounts> counts_;
  std::span<const WordLink> gold_;
  Index target_ = 0;
};

}  // namespace attn
