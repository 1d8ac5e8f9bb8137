#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "attnkit/attention.hpp"
#include "energy/energy_description.hpp"
#include "gradient/projection_gradient.hpp"
#include "scheme/scheme.hpp"
#include "score/relative_bias.hpp"
#include "score/scores.hpp"
#include "score/weight_dropout.hpp"

/// One problem of a batch (a *head*): its scores, weights and gradients. The plans and the tools
/// compute every head by these functions.
namespace attn {

/// How the scores of all heads are computed.
struct ScoreRecipe {
  const EnergyDescription* energy = nullptr;  ///< of q and k; unused without them
  double scale = 1;
  double divisor = 1;  ///< ready-made scores are divided by it
  bool causal = false;
  Window window;
  std::optional<double> softcap;
  RelativePositions relative = RelativePositions::none;
  Index heads = 1;                ///< length of the last leading axis, for the slopes of alibi
  bool same_if_rescaled = false;  ///< see AttentionOptions::Tuning
  /// γ of the scheme transport, by which `scale` is divided; preferences are then no part of the
  /// scores.
  std::optional<double> gamma;
  /// Masses close queries and keys: the caller requires the energy to be defined (require_defined).
  bool has_masses = false;
};

/// The inputs of one head, in memory that outlives it. Views without data and null pointers stand
/// for absent inputs.
template <class T>
struct HeadArrays {
  Index problem = 0;  ///< position among all problems; the head is problem % heads
  Index queries = 0;  ///< without padding, like keys and all arrays
  Index keys = 0;
  Index offset = 0;                         ///< query i stands at i + offset among the keys
  MatrixView<const T> q, k, v;              ///< q and k are both present or both absent
  std::vector<MatrixView<const T>> energy;  ///< one per operand of the energy
  const MatrixSource<T>* scores = nullptr;  ///< ready-made; without q and k
  const MatrixSource<T>* bias = nullptr;
  const MatrixSource<std::uint8_t>* mask = nullptr;
  const MatrixSource<T>* preference = nullptr;
  const MatrixSource<T>* gate = nullptr;
  const RelativeBias<T>* relative = nullptr;
  const TransportKernel* transport = nullptr;
  const Packing* packing = nullptr;  ///< of the queries of the whole problem
  Index first_query = 0;  ///< the number of the first query, for messages and the packing

  BandRule band(const ScoreRecipe& recipe) const {
    return {recipe.causal, recipe.window, offset, packing, first_query};
  }

  /// The energy's arguments, with the scale of a recipe.
  EnergyArguments<T> energy_arguments(double scale, int threads) const {
    return {q, k, energy, scale, threads};
  }
};

/// The relative bias of a head, or nothing for RelativePositions::none. `table` (buckets, heads) is
/// the table of t5. Throws the errors of t5_relative_bias.
template <class T>
std::optional<RelativeBias<T>> relative_bias_of(const ScoreRecipe& recipe,
                                                MatrixView<const T> table,
                                                const HeadArrays<T>& head);

/// The scores of a head, with their energy. Without q, k and ready-made scores the energy is 0.
/// Throws the errors of the energy, of Scores, and without masses of require_defined.
template <class T>
class HeadScores {
 public:
  HeadScores(const ScoreRecipe& recipe, const HeadArrays<T>& head, int threads);

  const Scores<T>& scores() const { return *scores_; }

  /// The most bytes that a HeadScores allocates, relative bias included. `vectors`: scores of q and
  /// k.
  static std::int64_t bytes(const ScoreRecipe& recipe, bool vectors, const EnergySizes& sizes);

 private:
  std::unique_ptr<Energy<T>> energy_;
  std::optional<Scores<T>> scores_;
};

/// The log-likelihood of the mixture that the scores of a head stand for, if their energy is
/// gaussian (gaussian_log_likelihood). `found` is the result of attend(scores, options).
template <class T>
std::optional<double> log_likelihood_of(const ScoreRecipe& recipe, const HeadArrays<T>& head,
                                        const Scores<T>& scores, const SchemeOptions& options,
                                        const Attention& found);

/// Where a head's gradients of x, y and their weights go. A gradient whose view has no data is not
/// computed.
template <class T>
struct HeadProjectionTargets {
  MatrixView<T> x;  ///< (Lq, D)
  MatrixView<T> y;  ///< (Lk, D); the data of x if keys and values come from x, too
  MatrixView<T> wq, wk, wv;
  MatrixView<T> bq, bk, bv;
  MatrixView<T> q_norm, k_norm, q_norm_bias, k_norm_bias;
};

/// Where the gradients of one head go; contiguous, except those of matrices by pairs. A gradient
/// whose view has no data is not computed.
template <class T>
struct HeadGradientTargets {
  /// With a norm over all heads, q and k are its result before the rotation. What it is made from
  /// has a gradient of all heads together, which is not computed: differentiate_over_heads.
  MatrixView<T> q, k, v;
  std::vector<MatrixView<T>> energy;  ///< one per operand of the energy
  MatrixView<T> bias;                 ///< (Lq or 1, Lk or 1)
  MatrixView<T> preference;           ///< (Lq or 1, Lk or 1), like bias with any row stride
  MatrixView<T> cost;                 ///< (Lk, Lk), with any row stride
  MatrixView<T> relative_bias;        ///< (buckets, heads): 0 except in the head's column
  T* hybrid = nullptr;
  T* sink = nullptr;
  MatrixView<T> gate;  ///< (Lq or 1, dv or 1)
  HeadProjectionTargets<T> projections;
};

template <class T>
class RepeatedScores;

/// A head with its results.
template <class T>
struct HeadForward {
  const ScoreRecipe* recipe = nullptr;
  const HeadArrays<T>* arrays = nullptr;
  const Scores<T>* scores = nullptr;
  SchemeOptions options;
  const Attention* attention = nullptr;  ///< result of attend(scores, options)
  MatrixView<const T> out;               ///< (Lq, dv), before the gate
  MatrixView<const T> grad_out;          ///< (Lq, dv), after the gate
  ProjectedFrom<T> q, k, v;              ///< views without data if nothing is projected
  WeightDropout dropout = {};            ///< with which `out` was made
  const RepeatedScores<T>* repeated =
      nullptr;  ///< the source of `scores`, if attention is repeated
};

/// Computes all gradients of a head: `differentiate` with the adjoints of energy and biases, or the
/// gradients of repeated attention, and the chain rule through the projections. The gradient of x
/// is the sum, in T, of the parts through q, and then through k and v if these come from x.
template <class T>
void differentiate_head(const HeadForward<T>& head, const HeadGradientTargets<T>& targets,
                        int threads);

/// The most bytes that differentiate_head allocates if all gradients are requested, or only
/// gradients that need no scores (v, wv, hybrid). `projects`: through projections.
std::int64_t differentiate_head_bytes(const ScoreRecipe& recipe, const SchemeOptions& options,
                                      const std::optional<Repetition>& repetition, bool vectors,
                                      bool projects, bool needs_scores, const EnergySizes& sizes,
                                      Index v_head_dim, std::size_t element_size, int threads);

}  // namespace attn
