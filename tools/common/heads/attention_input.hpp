#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/heads/head_axes.hpp"
#include "common/heads/packed_sequences.hpp"
#include "common/options/padding_words.hpp"
#include "common/options/score_options.hpp"
#include "common/shards/problem_share.hpp"
#include "head/attention_sources.hpp"
#include "io/input.hpp"

namespace attn::tools {

/// The attention problems of a bundle (one per position of the leading axes, a *head* for short).
/// All shapes and types are checked. The only numbers read are the bounds of sequences: lengths,
/// starts and offsets.
struct AttentionInput : AttentionSources {
  /// `with_values`: uses v if the bundle has it. `schemes` determines the scores that
  /// Head::scores provides. `wider_axes`: AttentionSources::wider. Throws Error(input) that names
  /// datasets whose rank, shape or type does not fit, Error(usage) for an open causal alignment,
  /// for a sink under a scheme without sinks, and for packed sequences that a scheme does not keep
  /// apart.
  AttentionInput(const io::InputBundle& bundle, const ScoreOptions& options, bool with_values,
                 const std::vector<Scheme>& schemes = {Scheme::unas}, Shape wider_axes = {});

  ScoreOptions options;
  Causal causal = Causal::none;
  bool any_float64 = false;             ///< whether a dataset in use is float64
  std::shared_ptr<ProblemShare> share;  ///< of a shard; null: all problems
  std::vector<Index> chosen;            ///< the problems of choose_heads; empty: all
  HeadAxes axes;                        ///< of the heads to compute, without a shard
  /// The queries and keys of the arrays. With ScoreOptions::by_sequence, `queries` and `keys` are
  /// those of the longest sequence.
  Index stored_queries = 0, stored_keys = 0;
  std::vector<ArraySource> transform_datasets;  ///< norms and rotary positions of q and k

  /// Adds the dataset grad_out, which is then read with the heads. Throws Error(input) unless it
  /// has the shape of out.
  void take_grad_out(const io::InputBundle& bundle);

  /// Adds the operands that join heads, wo and bo, if the bundle has them. Requires v. Throws
  /// Error(input) if their shapes do not fit, or if the heads of a sequence differ in their
  /// queries; Error(usage) for bo without wo.
  void take_join(const io::InputBundle& bundle);

  /// Adds grad_joined, from which each head's grad_out is then made. Requires take_join. Throws
  /// Error(input) if its shape is not joined_shape(queries).
  void take_grad_joined(const io::InputBundle& bundle);

  /// Leaves only the heads that `list` chooses along the last leading axis: --heads. `where` is the
  /// bundle in messages. Throws what parse_indices throws.
  void choose_heads(const std::string& list, const std::string& where);

  /// Whether scores depend on the positions of queries and keys.
  bool by_position() const;

  /// All datasets that are read, for the report.
  std::vector<ArraySource> datasets() const;

  /// The number of problems to compute, and the n-th of them: all problems, the problems of
  /// `share`, or the chosen ones.
  Index own_problems() const {
    if (share) return share->size();
    return chosen.empty() ? problems : std::ssize(chosen);
  }
  Index own_problem(Index n) const {
    if (share) return share->problem(n);
    return chosen.empty() ? n : chosen[static_cast<std::size_t>(n)];
  }

  /// The padding of the problems to compute.
  Padding padding() const;

  /// The sequence of each problem; problems that differ only in their head share one.
  std::vector<Index> sequences() const;

  /// The leading axes of the arrays: without that of packed sequences.
  Shape stored_axes() const { return Shape(leading.begin() + std::ssize(front), leading.end()); }

  /// Where the own queries and keys of a problem stand among `queries` and `keys`.
  TileRange own_place(Index problem) const {
    const TileRange& own = part(problem).range;
    return front.empty() ? own : TileRange{0, own.rows, 0, own.cols};
  }

  /// Floating-point operations of `passes` passes over the energies of the own heads for `scheme`,
  /// including the products before them: projections, and products with W and W1. Pairs that
  /// causality or the window forbids and padding are not counted; a tanh counts as one operation.
  double score_flops(Scheme scheme, double passes) const;

  /// The number of pairs that causality and the window allow, of all heads to compute, without
  /// padding.
  double pairs() const;

 private:
  void take_vectors_of(const io::InputBundle& bundle, bool with_values);
  void take_projections_of(const io::InputBundle& bundle, bool with_values);
  void take_ready_made_of(const io::InputBundle& bundle, bool with_values);
  void take_terms(const io::InputBundle& bundle);
  void take_mask_of(const ArraySource& source);
  void take_parts(const io::InputBundle& bundle);
  void take_packings(const PackedSequences& packed, const std::string& where,
                     const std::vector<Scheme>& schemes);
  void require_no_front_axis(const io::InputBundle& bundle) const;
  void take_sink(const io::InputBundle& bundle, const std::vector<Scheme>& schemes);
  void set_recipes();
};

/// Refuses a dataset sink: Error(usage) that says who has no sinks.
void require_no_sink(const io::InputBundle& bundle, const std::string& who);

/// Throws Error(usage) if --layout is given and no array has an axis of heads: neither q and k, nor
/// a v from which out is computed.
void require_layout_effect(const cli::Arguments& arguments, const AttentionInput& input);

}  // namespace attn::tools
