#pragma once

#include <vector>

#include "train/transformer.hpp"

namespace attn::train {

struct OutputOptions {
  Index start = 0;   ///< the token <s>
  Index end = 0;     ///< the token </s>
  Index length = 0;  ///< the most tokens of an output, without </s>
  Index beam = 1;    ///< the number of prefixes kept; 1: greedy
};

/// The output of an encoder and a decoder for each source, without <s> and </s>: greedy, or by beam
/// search.
///
/// A prefix is a sequence of tokens, of which only the last may be </s>, with the float64 sum of
/// their log p, each given the source and the tokens before. <s> is never chosen. The search starts
/// with the empty prefix. Each step extends every prefix without </s> by every token; prefixes with
/// </s> stay. The `beam` prefixes with the largest sums are kept; ties go to the lexicographically
/// first tokens. The search ends when all kept prefixes have </s>, or after `length` steps. The
/// output is then the prefix with the largest sum divided by its number of tokens, </s> included;
/// ties go to the larger sum, then to the first tokens. The division is the simple form of the
/// length normalisation in Wu et al. (arXiv:1609.08144, section 7); without it short outputs win.
///
/// An output depends on its source alone, to the last bit: sources are searched one by one, with
/// the keys and values of earlier positions kept. Time O(beam·length) rows of the decoder for each
/// source.
///
/// Requires threads >= 1. Throws Error(usage) if the model has no encoder, if its decoder is not
/// causal or does not use unas (under other schemes, earlier positions depend on later ones), and
/// for options out of range: 1 <= length <= the model's length, beam >= 1, `start` and `end`
/// different tokens of the vocabulary. Throws Error(input) for a source that is empty, is longer
/// than the model's sources or has a token beyond their vocabulary, and Error(numerical) if a logit
/// is not finite; both name the source by its number from 0.
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
