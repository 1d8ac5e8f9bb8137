#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/operand.hpp"
#include "common/score_options.hpp"
#include "io/input.hpp"
#include "plan/head.hpp"
#include "score/scores.hpp"

namespace attn::tools {

/// q, k or v of a head: rows × cols, read as they are or made as input · weights + bias.
struct Vectors {
  Operand input;                   ///< q, k, v themselves, or x, y
  std::optional<Operand> weights;  ///< wq, wk, wv (D, d)
  std::optional<Operand> bias;     ///< bq, bk, bv (d)
  Index rows = 0;
  Index cols = 0;

  /// "a.h5:/q", "a.h5:/x times a.h5:/wq": for messages.
  std::string address() const;
};

/// The attention problems of a bundle (one per position of the leading axes, a *head* for short),
/// with everything about shapes and types checked, and nothing read yet but key_length.
struct AttentionInput {
  /// Throws Error(input) naming the datasets whose rank, shape or type does not fit, Error(usage)
  /// for an open causal alignment. `with_values`: v is wanted where there is one. `schemes` says
  /// which scores are (Head::scores).
  AttentionInput(const io::InputBundle& bundle, const ScoreOptions& options, bool with_values,
                 const std::vector<Scheme>& schemes = {Scheme::unas});

  ScoreOptions options;
  bool with_plain = false;    ///< some scheme is of plain scores
  bool with_fenchel = false;  ///< fenchel is among them
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
  std::optional<Operand> grad_out;                      ///< like out; see take_grad_out
  std::vector<Index> key_length;                        ///< per problem; empty: none
  bool any_float64 = false;                             ///< among what is computed with

  /// Wants the dataset grad_out too, which is then read with the heads. Throws Error(input) where
  /// it has another shape than out.
  void take_grad_out(const io::InputBundle& bundle);

  /// For the report: every dataset that is read.
  std::vector<io::InputDataset> datasets() const;

  /// The energy whose operands are read: that of plain scores, if there are any.
  const EnergyDescription& energy() const;

  /// How the scores for `scheme` are made. Requires that the input was made for it.
  ScoreRecipe recipe(Scheme scheme) const;

  /// What the energies of a head are computed of.
  EnergySizes sizes() const;

  /// Heads: the length of the last leading axis, 1 where there is none.
  Index heads() const { return leading.empty() ? 1 : leading.back(); }

  /// "a.h5:/q and a.h5:/k, head [0, 3]": what the scores of a problem are made of, for messages.
  std::string place(Index problem) const;

  /// Floating-point operations of `passes` passes over the energies of all heads for `scheme`, with
  /// what is made before them: projections, the products with W and W1. Pairs that causality,
  /// window or padding forbid count nothing, a tanh counts one.
  double score_flops(Scheme scheme, double passes) const;

  /// Pairs of all heads that causality, window and padding leave.
  double pairs() const;

  /// Bytes one head takes in memory at float32 or float64, dense matrices up to `dense_limit` bytes
  /// held and larger ones read by tiles.
  std::int64_t head_bytes(std::size_t element_size, std::int64_t dense_limit) const;

 private:
  void take_ready_made(const io::InputBundle& bundle);
  void take_vectors(const io::InputBundle& bundle, bool with_values);
  void take_projections(const io::InputBundle& bundle, bool with_values);
  void take_values_of_ready_made(const io::InputBundle& bundle);
  void take_energy_operands(const io::InputBundle& bundle);
  void take_terms(const io::InputBundle& bundle);
  std::vector<const Operand*> operands() const;
};

/// Throws Error(usage) where --layout is given and nothing has heads to be laid out: no q and k,
/// and no v from which an out is made.
void require_layout_effect(const cli::Arguments& arguments, const AttentionInput& input);

}  // namespace attn::tools
