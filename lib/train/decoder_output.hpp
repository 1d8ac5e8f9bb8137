#pragma once

#include <vector>

#include "train/transformer.hpp"

namespace attn::train {

struct OutputOptions {
  Index start = 0;   ///< the token <s>
  Index end = 0;     ///< the token </s>
  Index length = 0;  ///< the most tokens of an output, </s> not counted
  Index beam = 1;    ///< the prefixes that are kept; 1: greedy
};

/// The output of an encoder and a decoder for each source, without <s> and </s>: greedy, or found
/// by beam search.
///
/// A prefix is some tokens, of which only the last may be </s>, with the sum of their log p, each
/// given the source and the tokens before it, in float64. <s> is never chosen. At first the empty
/// prefix is kept. In each step every prefix without </s> is extended by every token, those with
/// </s> stay, and of all these the `beam` largest sums are kept, of equal ones those whose tokens
/// come first in lexicographic order. The search ends when all that are kept have </s>, or after
/// `length` steps. Of what is kept then, the output is the prefix with the largest sum divided by
/// its number of tokens, </s> included; of equal ones the one with the larger sum, then the first
/// tokens. The division is the simple form of the length normalisation in Wu et al.
/// (arXiv:1609.08144, section 7); without it short outputs win.
///
/// An output depends on its source alone, to the last bit: each is searched by itself, with the
/// keys and values of earlier positions kept. Time O(beam·length) rows of the decoder for each
/// source.
///
/// Requires threads >= 1. Throws Error(usage) if the model has no encoder, if its decoder is not
/// causal or attends by another scheme than unas, under which an earlier position would depend on
/// later ones, and for options out of range: 1 <= length <= that of the model, beam >= 1, `start`
/// and `end` different tokens of the vocabulary. Throws Error(input) for a source that is empty,
/// longer than the model's sources or has a token beyond their vocabulary, and Error(numerical) if
/// a logit is not finite; both name the source by its number from 0.
template <class T>
std::vector<std::vector<Index>> decoder_outputs(const Transformer& model, const T* weights,
                                                const std::vector<std::vector<Index>>& sources,
                                                const OutputOptions& options, int threads);

/// The most memory that decoder_outputs takes for sources of up to source_length tokens, its result
/// not included.
template <class T>
std::int64_t decoder_output_bytes(const Transformer& model, Index source_length,
                                  const OutputOptions& options, int threads);

}  // namespace attn::train
