#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "head/head.hpp"
#include "head/operand.hpp"
#include "head/own_part.hpp"
#include "scheme/scheme_description.hpp"
#include "score/head_transform.hpp"
#include "score/packing.hpp"

namespace attn {

/// q, k or v of a head, or the gradient of its output: rows × cols, read as they are, or computed
/// as input · weights + bias or as input · weightsᵀ, and then transformed.
struct Vectors {
  Operand input;                   ///< q, k, v, grad_out themselves, or x, y, grad_joined
  std::optional<Operand> weights;  ///< wq, wk, wv (D, d), or wo (dv, D)
  std::optional<Operand> bias;     ///< bq, bk, bv (d)
  Index rows = 0;
  Index cols = 0;
  bool transposed = false;  ///< whether weights are transposed
  /// A norm and rotary positions, for q and k that are projected; null: none.
  std::shared_ptr<const HeadTransform> transform = nullptr;
  /// The weights and bias of its norm, for their gradients: of each head, or whole. Their numbers
  /// are in the transform.
  std::optional<Operand> norm = std::nullopt, norm_bias = std::nullopt;

  /// Whether a norm is over all heads. Weights and biases then have an axis of heads.
  bool over_heads() const { return transform != nullptr && transform->over_heads(); }

  /// The number of heads of the weights.
  Index heads() const { return weights->leading.empty() ? 1 : weights->leading.back(); }

  /// The length D of the input's rows.
  Index inner() const { return input.cols; }

  /// "a.h5:/q", "a.h5:/x times a.h5:/wq": for messages.
  std::string address() const;

  /// Bytes of one head in memory, with those of all heads that a norm over these needs.
  std::int64_t bytes(std::size_t element_size) const;
};

/// Vectors that are read as they are: see vectors_operand.
Vectors vectors_as_they_are(const ArraySource& source, const Shape& leading, bool grouped,
                            HeadLayout layout);

/// What q, k and v are projected from: q = x·wq + bq, k = y·wk + bk, v = y·wv + bv.
struct ProjectionSources {
  ArraySource x, y, wq, wk;
  std::optional<ArraySource> wv, bq, bk, bv;
};

/// The operands of attention problems, one problem (a *head*) for each position of the leading
/// axes. Their numbers are read when a head is (HeadReader), but for those that bound sequences and
/// for sinks.
struct AttentionSources {
  bool with_plain = false;        ///< some scheme uses plain scores
  bool with_preference = false;   ///< some scheme has scores with a preference
  ScoreRecipe plain, preferring;  ///< how these scores are computed
  bool bf16 = false;              ///< q and k must hold bfloat16 numbers
  bool shows_all = false;         ///< results show the energies of all pairs: no row is unseen
  Shape front;                    ///< further leading axes, before those of the operands
  /// Leading axes of further inputs, such as marginals, with which those of the operands broadcast.
  Shape wider;
  Shape leading;  ///< of the results
  Index problems = 1;
  Index queries = 0;     ///< Lq
  Index keys = 0;        ///< Lk
  Index depth = 0;       ///< d of the queries; 0 for ready-made scores
  Index v_head_dim = 0;  ///< dv; 0 without v
  std::optional<Vectors> q, k, v;
  std::optional<Operand> scores, mask, bias, preference;
  std::optional<Operand> cost;                          ///< (Lk, Lk), of the scheme transport
  std::vector<std::optional<Operand>> energy_operands;  ///< one per operand of energy()
  std::optional<Operand> rel_bias;                      ///< (buckets, heads)
  std::optional<Operand> sink;                          ///< a number per problem
  std::optional<Operand> gate;                          ///< (Lq or 1, dv or 1), with v only
  std::vector<double> sinks;                            ///< per problem; empty: none
  std::optional<Operand> wo;                            ///< (dv, D): a head's rows of (H·dv, D)
  std::optional<Operand> bo;                            ///< (D)
  Index joined_width = 0;                               ///< D, or H·dv without wo
  std::optional<Vectors> grad_out;                      ///< like out
  std::vector<OwnPart> parts;                           ///< of every problem
  /// Of every problem, or empty. A problem with a packing has padding only behind its sequences,
  /// and the packing's offset if there is only one.
  std::vector<std::shared_ptr<const Packing>> packings;

  // The next functions take operands, whose shapes are in attnkit/attention.hpp. Call one of the
  // first four first: it sets the leading axes. Call the others in any order. They throw
  // Error(input), which names the arrays, for shapes that do not fit and types that are not
  // numbers.

  void take_vectors(const ArraySource& q_source, const ArraySource& k_source,
                    const std::optional<ArraySource>& v_source, HeadLayout layout);
  void take_projections(const ProjectionSources& sources);
  /// `of_cost`: the scores are its negatives.
  void take_scores(const ArraySource& source, bool of_cost);
  /// The same for weights, which are not read here.
  void take_weights(const ArraySource& source);

  /// The values of ready-made scores or weights.
  void take_values(const ArraySource& source, HeadLayout layout);

  /// The operands of energy(), which must be set, besides q and k. `find` yields the one of that
  /// name; it may throw if there is none.
  using Find = std::function<std::optional<ArraySource>(const EnergyOperand& operand)>;
  void take_energy_operands(const Find& find);

  void take_mask(const ArraySource& source);
  void take_bias(const ArraySource& source);
  /// `by_key`: (…, Lk), the same for all queries.
  void take_preference(const ArraySource& source, bool by_key);
  /// (…, Lk, Lk): the costs of transport from the key of the column to the key of the row.
  void take_transport_cost(const ArraySource& source);
  void take_relative_bias(const ArraySource& source);
  /// Requires values.
  void take_gate(const ArraySource& source, HeadLayout layout);

  /// The number of kinds of scores.
  Index energies() const { return with_plain && with_preference ? 2 : 1; }

  /// How the scores for `scheme` are computed. Requires that they are among the kinds.
  const ScoreRecipe& recipe(Scheme scheme) const {
    return description_of(scheme).has_preference() ? preferring : plain;
  }

  /// The energy whose operands are read: the energy of plain scores, if a scheme uses these.
  const EnergyDescription& energy() const { return *(with_plain ? plain : preferring).energy; }

  /// Whether the scores are made by an energy that is a cost of points.
  bool compares_points() const;

  /// The sizes from which the energies of a head are computed.
  EnergySizes sizes() const;

  /// The queries and keys of a problem that are not padding.
  const OwnPart& part(Index problem) const { return parts[static_cast<std::size_t>(problem)]; }

  /// The packing of a problem, or null.
  const Packing* packing(Index problem) const {
    return packings.empty() ? nullptr : packings[static_cast<std::size_t>(problem)].get();
  }

  /// The logit of a problem's sink, or no_sink.
  double sink_of(Index problem) const {
    if (sinks.empty()) return no_sink;
    return sinks[static_cast<std::size_t>(problem)];
  }

  /// Whether keys and values are projected from another array than queries.
  bool has_y() const { return k && k->weights && !k->input.dataset.same_as(q->input.dataset); }

  /// All pairs of a problem, padding included.
  TileRange all_pairs() const { return {0, queries, 0, keys}; }

  /// The number of heads: the length of the last leading axis, or 1 without leading axes.
  Index heads() const { return leading.empty() ? 1 : leading.back(); }

  /// The shape of the joined heads of `count` queries: (…, count, joined_width), without the axis
  /// of heads.
  Shape joined_shape(Index count) const;

  /// All operands that are read.
  std::vector<const Operand*> operands() const;

  /// The sources of a problem's scores, for messages: "a.h5:/q and a.h5:/k, head [0, 3]".
  std::string place(Index problem) const;

  /// The number of pairs of each head that causality and the window allow, without padding.
  std::vector<double> pairs_by_problem() const;

  /// Bytes of the bias of positions and of the matrices of a head, as below.
  /// `matrix_rows`: the most rows of a mask, bias or ready-made scores that a rank has; absent:
  /// all.
  std::int64_t matrix_bytes(std::size_t element_size, std::int64_t dense_limit,
                            std::optional<Index> matrix_rows = std::nullopt) const;

  /// Bytes of one head in memory, in float32 or float64. Dense matrices of up to `dense_limit`
  /// bytes are held in memory, larger ones are read by tiles. `part`: the number of queries in
  /// memory; absent: all.
  std::int64_t head_bytes(std::size_t element_size, std::int64_t dense_limit,
                          std::optional<Index> part = std::nullopt,
                          std::optional<Index> matrix_rows = std::nullopt) const;

 private:
  void set_extents(const Shape& axes);
};

}  // namespace attn
