#pragma once

#include <vector>

#include "cli/report.hpp"
#include "common/heads/attention_input.hpp"
#include "scheme/scheme.hpp"

namespace attn::tools {

/// Warns of inputs that can be computed but are rarely meant: what the functions below look for,
/// except warn_of_leak.
void warn_of_input(const std::vector<Scheme>& schemes, const io::InputBundle& bundle,
                   const AttentionInput& input, cli::Report& report);

/// Warns once if one of the `schemes` normalises over the queries although causality or the window
/// hides all later keys: the weights of a query then depend on later queries, which no mask
/// prevents.
void warn_of_leak(const std::vector<Scheme>& schemes, const AttentionInput& input,
                  cli::Report& report);

/// Warns if q and k look like (batch, length, heads, depth), and no layout is given or recorded: k
/// would have more than 64 heads and fewer keys, or several heads where q has one, as when one
/// query is decoded, or q more queries than k has keys by a factor, as with grouped heads, or
/// `tokens` are as long as the axis of heads. The same for (batch, heads, length, depth) that are
/// read the other way, above 128 heads. Warns if `tokens` are as long as the last axis instead.
void warn_of_layout(const io::InputBundle& bundle, const AttentionInput& input,
                    cli::Report& report);

/// Warns of masks that forbid every pair of a head, or in self-attention every pair of a query and
/// the key at its own place: they probably have True where a pair is forbidden. Warns of transposed
/// causal masks. Reads some rows of each mask; only if these look so, all that is needed to be
/// sure. A note follows if the mask leaves each sequence its last keys only: a padding mask with
/// True for padding looks like one for padding on the left.
void warn_of_mask(const AttentionInput& input, cli::Report& report);

/// Warns of a bias without any number but 0 and 1: probably a mask.
void warn_of_bias(const AttentionInput& input, cli::Report& report);

/// Warns of causality that counts from the first query and hides most keys from all queries, and of
/// packed sequences that end before the arrays do. A note
/// follows if the keys of self-attention have lengths that its queries lack.
void warn_of_lengths(const io::InputBundle& bundle, const AttentionInput& input,
                     cli::Report& report);

/// Warns of attributes attn_… that nothing reads and that look like one that is read.
void warn_of_attributes(const io::InputBundle& bundle, cli::Report& report);

/// Warns of the scale 1/√d of scaled-dot energies, which are divided by √d already.
void warn_of_scale(const std::vector<Scheme>& schemes, const AttentionInput& input,
                   cli::Report& report);

/// Warns if a bias has finite values as low as many programs use for −inf (−1e4, −1e9, the lowest
/// number of a format). In a softmax their weights are 0, but under the other `schemes` a key with
/// such a bias for all queries gets as much attention as any other.
void warn_of_finite_masks(double least_bias, const std::vector<Scheme>& schemes,
                          cli::Report& report);

/// Advice on a mask whose shape (…) does not fit; empty if there is none.
std::string advice_on_mask(const Shape& mask, const AttentionInput& input);

}  // namespace attn::tools
