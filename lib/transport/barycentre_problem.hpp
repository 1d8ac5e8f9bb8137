#pragma once

#include <span>

#include "attnkit/barycentre.hpp"
#include "pass/pass.hpp"
#include "sinkhorn/barycentre_gradient.hpp"
#include "sinkhorn/sinkhorn_state.hpp"
#include "transport/derivatives.hpp"

/// One barycentre, from its scores to its results. BarycentrePlan and sinkhorn-iter find all their
/// barycentres by this function.
namespace attn {

template <class T>
struct OneBarycentre {
  const Scores<T>& scores;       ///< −C/ε, or the given scores
  const Histograms& histograms;  ///< of equal sums; their weights have the sum 1
  double total = 1;              ///< the sum of a histogram
  double weight_sum = 1;         ///< by which the weights as given were divided
  const BarycentreOptions& options;
  double unit = 1;      ///< of the results, in units of the scores
  bool of_cost = true;  ///< else of scores
  BarycentreUpstream<T> upstream = {};
};

/// Where derivatives by the inputs go (BarycentreGradients). Empty spans are not requested.
template <class T>
struct BarycentreDerivatives {
  std::span<double> histograms = {};  ///< (K, Lk)
  std::span<double> weights = {};     ///< by the weights as given (K)
  ScoreDerivatives<T> scores = {};

  bool wanted() const { return !histograms.empty() || !weights.empty() || scores.wanted(); }
};

/// Where the results go (BarycentreOutputs). Empty spans are not requested.
template <class T>
struct BarycentreTargets {
  std::span<double> barycentre = {};                         ///< p (Lq)
  std::span<double> row_potential = {}, col_potential = {};  ///< f (K, Lq), g (K, Lk)
  ObserverList<T> plan = {};                                 ///< they are shown Σ_k w_k P_k
  /// Derivatives of the optimum, in units of the cost: the scale of its points is the scale of
  /// minus the cost.
  BarycentreDerivatives<T> optimum = {};
  BarycentreDerivatives<T> through_barycentre = {};  ///< derivatives of L, by the given scores
};

/// Solves the problem and writes its results; see attnkit/barycentre.hpp. `progress` may be null. A
/// solution resumed from its state has the same bits. Throws as BarycentrePlan::run.
template <class T>
BarycentreResult solve_barycentre(const OneBarycentre<T>& problem, const BarycentreTargets<T>& to,
                                  int threads, SinkhornProgress* progress = nullptr);

}  // namespace attn
