#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/input.hpp"
#include "tensor/shape.hpp"

namespace attn::tools {

/// Weights of sentence pairs, for one section: the dataset weights (N, heads..., J, I) of N pairs,
/// or (J, I) of one, and reverse_weights (N, heads..., I, J) of the other direction. Padding is
/// never read.
class WeightPairs {
 public:
  /// Checks everything but the numbers. Throws Error(input).
  explicit WeightPairs(const io::InputBundle& bundle);

  static bool suffices(const io::InputBundle& bundle) { return bundle.has("weights"); }

  std::vector<ArraySource> datasets() const;
  const std::string& address() const { return weights_.address(); }
  Index pairs() const { return pairs_; }
  const Shape& head_axes() const { return head_axes_; }
  Index heads() const { return element_count(head_axes_); }
  bool has_reverse() const { return reverse_.has_value(); }

  /// The lengths of the axes, and of a pair's own words.
  Index source_axis() const { return source_axis_; }
  Index target_axis() const { return target_axis_; }
  Index source_words(Index pair, Index head) const { return source_words_[at(pair, head)]; }
  Index target_words(Index pair, Index head) const { return target_words_[at(pair, head)]; }

  /// "w.h5:/weights[3, 0]": one matrix of weights.
  std::string place(Index pair, Index head) const;

  /// Reads the weights of `rows` target words from `row` on, each a row over the own source words.
  /// Throws Error(input) naming a weight that is not a number >= 0.
  void read(Index pair, Index head, Index row, Index rows, double* weights) const;

  /// The same from reverse_weights: a row for each own source word, with `rows` columns.
  void read_reverse(Index pair, Index head, Index row, Index rows, double* weights) const;

 private:
  std::size_t at(Index pair, Index head) const {
    return static_cast<std::size_t>(pair * heads() + head);
  }

  ArraySource weights_;
  std::optional<ArraySource> reverse_, source_length_, target_length_;
  Shape leading_, head_axes_;
  Index pairs_ = 1;
  Index target_axis_ = 0, source_axis_ = 0;
  std::vector<Index> source_words_, target_words_;  // of each pair and head
};

}  // namespace attn::tools
