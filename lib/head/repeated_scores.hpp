#pragma once

#include <optional>
#include <vector>

#include "gradient/gradient.hpp"
#include "head/head.hpp"
#include "parallel/kept_state.hpp"
#include "scheme/mixture.hpp"

namespace attn {

/// σ² of the mixture for the first step of dnas: 1/scale, or sqrt(d)/scale.
double first_variance(const ScoreRecipe& recipe, Index depth);

/// Throws Error(usage) unless attention can be repeated with this scheme, energy, scale and so on;
/// see Repetition. `depth` is the width d of q and k; none if scores are not made from them.
/// `bias_by_query`: there is no bias, or one number for each query.
void require_repetition(const Repetition& repetition, Scheme scheme, const ScoreRecipe& recipe,
                        std::optional<Index> depth, bool bias_by_query, bool has_sink);

/// Where the gradients of repeated attention go; contiguous, except bias. A gradient whose view has
/// no data is not computed. Gradients of biases are sums over all steps.
template <class T>
struct RepeatedGradients {
  MatrixView<T> q, k, v;
  MatrixView<T> bias;           ///< (Lq or 1, Lk or 1); (Lq or 1, 1) under dnas
  MatrixView<T> relative_bias;  ///< (buckets, heads); only under unas
};

/// The scores of the last step of a head whose attention is repeated, after the queries have moved.
/// Requires what require_repetition checks.
template <class T>
class RepeatedScores {
 public:
  /// Runs all steps but the last. `head` must outlive the object; `options` apply to each step.
  /// `keeps`: keeps the queries of every step, which `differentiate` needs. Otherwise, the keeper
  /// of `options` keeps the steps that are done. Throws the errors of attend, Error(input) for a
  /// bias of −inf under dnas, and Error(numerical) for a likelihood that is not finite. Bits do not
  /// depend on `threads`.
  RepeatedScores(const ScoreRecipe& recipe, const HeadArrays<T>& head, const SchemeOptions& options,
                 const Repetition& repetition, bool keeps, int threads);

  RepeatedScores(const RepeatedScores&) = delete;
  RepeatedScores& operator=(const RepeatedScores&) = delete;

  const Scores<T>& scores() const { return mixture_ ? mixture_->scores() : moved_->scores(); }

  /// The queries of the last step (Lq, d), and under dnas the mixture with these centres.
  Buffer<double> queries() const;
  const Mixture& mixture() const { return mixtures_.back(); }

  /// The log-likelihood by step, where `found` is attend(scores(), options). Empty if there is none
  /// (gaussian_log_likelihood).
  std::vector<double> log_likelihood(const Attention& found) const;

  /// Writes the gradients through all steps. `last` belongs to the last step: its scores,
  /// attention, values and output, and dO.
  void differentiate(const Forward<T>& last, const RepeatedGradients<T>& gradients,
                     int threads) const;

 private:
  void estimate(int threads);
  void shift(int threads);
  void move(int threads);
  StateKeeper* keeper() const { return keeps_ ? nullptr : options_.keeper; }
  // Visits the number of steps done, and their likelihoods, if they have any.
  void visit_times(const KeptState::Visit& visit, Index& done);
  Mixture start() const;
  void differentiate_estimates(const Forward<T>& last, const RepeatedGradients<T>& gradients,
                               int threads) const;
  void differentiate_shifts(const Forward<T>& last, const RepeatedGradients<T>& gradients,
                            int threads) const;

  const ScoreRecipe& recipe_;
  const HeadArrays<T>& head_;
  SchemeOptions options_;
  Repetition repetition_;
  bool keeps_;
  PooledVector<double> log_likelihood_;  // of all steps but the last

  // Under dnas.
  Buffer<double> keys_;
  MixtureData data_;
  PooledVector<Mixture> mixtures_;  // of every step, or only of the last
  std::optional<MixtureScores<T>> mixture_;

  // Under unas.
  PooledVector<Buffer<T>> moves_;  // the queries after each move, or only after the last
  HeadArrays<T> at_;               // with the queries of the last step
  std::optional<HeadScores<T>> moved_;
};

/// Bytes of the state that a keeper gets, besides 8 for each time.
std::int64_t repeated_state_bytes(const EnergySizes& sizes);

/// The most bytes that RepeatedScores allocates, and the additional bytes to differentiate it.
/// `keeps` is the number of steps that it keeps.
std::int64_t repeated_scores_bytes(const ScoreRecipe& recipe, Scheme scheme,
                                   const EnergySizes& sizes, Index keeps, std::size_t element_size,
                                   int threads);
std::int64_t repeated_gradient_bytes(const ScoreRecipe& recipe, Scheme scheme,
                                     const EnergySizes& sizes, Index v_head_dim,
                                     std::size_t element_size, int threads);

}  // namespace attn
