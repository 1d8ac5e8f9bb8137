#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/operand.hpp"
#include "common/padding_words.hpp"
#include "common/problem_share.hpp"
#include "common/score_options.hpp"
#include "io/input.hpp"
#include "plan/head.hpp"
#include "plan/own_part.hpp"
#include "score/scores.hpp"

namespace attn::tools {

/// q, k or v of a head, or the gradient of its output: rows × cols, read as they are, or made as
/// input · weights + bias or as input · weightsᵀ.
struct Vectors {
  Operand input;                   ///< q, k, v, grad_out themselves, or x, y, grad_joined
  std::optional<Operand> weights;  ///< wq, wk, wv (D, d), or wo (dv, D)
  std::optional<Operand> bias;     ///< bq, bk, bv (d)
  Index rows = 0;
  Index cols = 0;
  bool transposed = false;  ///< of weights

  /// The length D of the input's rows.
  Index inner() const { return input.cols; }

  /// "a.h5:/q", "a.h5:/x times a.h5:/wq": for messages.
  std::string address() const;
};

/// The attention problems of a bundle (one per position of the leading axes, a *head* for short).
/// All shapes and types are checked; the only numbers that are read are those that bound sequences:
/// lengths, starts and offsets.
struct AttentionInput {
  /// `with_values`: uses v if the bundle has it. `schemes` determines the scores that
  /// Head::scores provides. Throws Error(input) that names datasets whose rank, shape or type does
  /// not fit, Error(usage) for an open causal alignment, and for a sink under a scheme without
  /// sinks.
  AttentionInput(const io::InputBundle& bundle, const ScoreOptions& options, bool with_values,
                 const std::vector<Scheme>& schemes = {Scheme::unas});

  ScoreOptions options;
  bool with_plain = false;       ///< some scheme uses plain scores
  bool with_preference = false;  ///< some scheme has scores with a preference
  Index energies() const { return with_plain && with_preference ? 2 : 1; }
  Causal causal = Causal::none;
  Shape leading;  ///< of the results
  Index problems = 1;
  Index queries = 0;     ///< Lq
  Index keys = 0;        ///< Lk
  Index depth = 0;       ///< d of the queries; 0 for ready-made scores
  Index v_head_dim = 0;  ///< dv; 0 without v
  std::optional<Vectors> q, k, v;
  std::optional<Operand> scores, mask, bias, preference;
  std::vector<std::optional<Operand>> energy_operands;  ///< one per operand of energy()
  std::optional<Operand> rel_bias;                      ///< (buckets, heads)
  std::optional<Operand> sink;                          ///< a number per problem
  std::optional<Operand> gate;                          ///< (Lq or 1, dv or 1), with v only
  std::vector<double> sinks;                            ///< per problem; empty: none
  std::optional<Operand> wo;                            ///< (dv, D): a head's rows of (H·dv, D)
  std::optional<Operand> bo;                            ///< (D)
  Index joined_width = 0;                               ///< D, or H·dv without wo; see take_join
  std::optional<Vectors> grad_out;                      ///< like out; see take_grad_out
  std::vector<OwnPart> parts;                           ///< of every problem
  bool any_float64 = false;                             ///< among the datasets that are used
  std::shared_ptr<ProblemShare> share;                  ///< of a shard; null: all problems

  /// Adds the dataset grad_out, which is then read with the heads. Throws Error(input) if its shape
  /// is not that of out.
  void take_grad_out(const io::InputBundle& bundle);

  /// Adds wo and bo, as far as the bundle has them, with which heads are joined. Requires v. Throws
  /// Error(input) if their shapes do not fit, or the heads of a sequence differ in their queries,
  /// and Error(usage) for bo without wo.
  void take_join(const io::InputBundle& bundle);

  /// Adds grad_joined, from which each head's grad_out is then made. Requires take_join. Throws
  /// Error(input) if its shape is not joined_shape(queries).
  void take_grad_joined(const io::InputBundle& bundle);

  /// The shape of the joined heads of that many queries: (…, count, joined_width), without the axis
  /// of heads.
  Shape joined_shape(Index count) const;

  /// All datasets that are read, for the report.
  std::vector<io::InputDataset> datasets() const;

  /// The energy whose operands are read: that of plain scores, if any scheme uses them.
  const EnergyDescription& energy() const;

  /// The queries and keys of a problem that are not padding.
  const OwnPart& part(Index problem) const { return parts[static_cast<std::size_t>(problem)]; }

  /// The logit of a problem's sink, or no_sink.
  double sink_of(Index problem) const {
    if (sinks.empty()) return no_sink;
    return sinks[static_cast<std::size_t>(problem)];
  }

  /// Whether queries have gates of their own.
  bool has_gate_by_query() const { return gate && gate->rows > 1; }

  /// All pairs of a problem, padding included.
  TileRange all_pairs() const { return {0, queries, 0, keys}; }

  /// The number of problems to compute, and the n-th of them: all, or those of `share`.
  Index own_problems() const { return share ? share->size() : problems; }
  Index own_problem(Index n) const { return share ? share->problem(n) : n; }

  /// Of the problems to compute.
  Padding padding() const;

  /// How the scores for `scheme` are computed. Requires that the constructor's `schemes` has it.
  ScoreRecipe recipe(Scheme scheme) const;

  /// The sizes from which the energies of a head are computed.
  EnergySizes sizes() const;

  /// The number of heads: the length of the last leading axis, or 1 without leading axes.
  Index heads() const { return leading.empty() ? 1 : leading.back(); }

  /// The sequence of each problem: those that differ in their head belong to one.
  std::vector<Index> sequences() const;

  /// The sources of a problem's scores, for messages: "a.h5:/q and a.h5:/k, head [0, 3]".
  std::string place(Index problem) const;

  /// Floating-point operations of `passes` passes over the energies of the own heads for `scheme`,
  /// including the products before them: projections, and products with W and W1. Pairs that
  /// causality or the window forbids and padding are not counted; a tanh counts as one operation.
  double score_flops(Scheme scheme, double passes) const;

  /// The number of pairs of each head that causality and the window allow, without padding.
  std::vector<double> pairs_by_problem() const;

  /// The same of all heads to compute.
  double pairs() const;

  /// Bytes of the bias of positions and of the matrices of a head, as below.
  /// `matrix_rows`: the most rows of a mask, bias or ready-made scores that a rank has; absent:
  /// all.
  std::int64_t matrix_bytes(std::size_t element_size, std::int64_t dense_limit,
                            std::optional<Index> matrix_rows = std::nullopt) const;

  /// Bytes of one head in memory, in float32 or float64. Dense matrices of up to `dense_limit`
  /// bytes are held in memory, larger ones are read by tiles. `part`: the number of its queries
  /// that are in memory; absent: all.
  std::int64_t head_bytes(std::size_t element_size, std::int64_t dense_limit,
                          std::optional<Index> part = std::nullopt,
                          std::optional<Index> matrix_rows = std::nullopt) const;

 private:
  void take_ready_made(const io::InputBundle& bundle);
  void take_vectors(const io::InputBundle& bundle, bool with_values);
  void take_projections(const io::InputBundle& bundle, bool with_values);
  void take_values_of_ready_made(const io::InputBundle& bundle);
  void take_energy_operands(const io::InputBundle& bundle);
  void take_terms(const io::InputBundle& bundle);
  void take_parts(const io::InputBundle& bundle);
  void take_sink(const io::InputBundle& bundle, const std::vector<Scheme>& schemes);
  void take_gate(const io::InputBundle& bundle);
  std::vector<const Operand*> operands() const;
};

/// Refuses a dataset sink: Error(usage) that says who has no sinks.
void require_no_sink(const io::InputBundle& bundle, const std::string& who);

/// Throws Error(usage) if --layout is given and no array has an axis of heads: neither q and k, nor
/// a v from which out is computed.
void require_layout_effect(const cli::Arguments& arguments, const AttentionInput& input);

}  // namespace attn::tools
