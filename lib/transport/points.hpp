#pragma once

#include <cstdint>
#include <memory>

#include "pass/potentials.hpp"
#include "score/energy.hpp"
#include "score/scores.hpp"
#include "sinkhorn/exact_transport.hpp"
#include "sinkhorn/implicit_gradient.hpp"
#include "tensor/pooled_vector.hpp"
#include "transport/derivatives.hpp"

/// Transport between points x (Lq, d) and y (Lk, d) whose cost is minus an energy: all but the plan
/// between them.
namespace attn {

/// The points of one side on both sides, with the derivative by them as that of the rows.
template <class T>
TransportPoints<T> rows_with_themselves(const TransportPoints<T>& points) {
  return {points.energy,
          {points.from.q, points.from.q, {}, points.from.scale, points.from.threads},
          {points.by.q, {}, {}}};
}
template <class T>
TransportPoints<T> cols_with_themselves(const TransportPoints<T>& points) {
  return {points.energy,
          {points.from.k, points.from.k, {}, points.from.scale, points.from.threads},
          {points.by.k, {}, {}}};
}

/// The scores of points with themselves. The points must outlive the scores.
template <class T>
class SelfScores {
 public:
  /// `points` as the functions above return them, with the scale of the scores.
  explicit SelfScores(const TransportPoints<T>& points);

  const Scores<T>& scores() const { return scores_; }

 private:
  std::unique_ptr<Energy<T>> energy_;
  Scores<T> scores_;
};

/// Subtracts from `points.by.q` (N, d) the derivative by the points, through both copies of each,
/// of half of the value of transport between the points and themselves. `points` have the scale of
/// minus the cost, and `potentials` belong to `scores` of SelfScores. Does nothing if the
/// derivative is not requested.
template <class T>
void subtract_self_gradient(const TransportPoints<T>& points, const Scores<T>& scores,
                            const Potentials& potentials, int threads);

/// Adds to `points.by.q` (N, d) the derivative of a number L with respect to the points, through
/// both copies of each point. The derivative of L with respect to their scores, which have the
/// scale of `points`, is π_ij (u_i + v_j). Does nothing if the derivative is not requested.
template <class T>
void add_self_solution_gradient(const TransportPoints<T>& points, const Scores<T>& scores,
                                const Potentials& potentials, const ImplicitGradient& solved,
                                int threads);

/// Writes the derivatives by x and y of the cost of a plan with these pairs; `points` have the
/// scale of minus the cost.
template <class T>
void write_plan_gradient(const TransportPoints<T>& points, const PooledVector<PlanPair>& pairs);

/// Adds the derivatives by x and y of the cost of e_i d_j / Σ d, the mass that a rounded plan adds.
/// Does nothing if Σ d = 0. One pass on one thread.
template <class T>
void add_missing_gradient(const TransportPoints<T>& points, const PooledVector<double>& e,
                          const PooledVector<double>& d);

/// Bytes that add_missing_gradient takes besides the gradients of the energy.
std::int64_t missing_gradient_bytes(Index rows, Index cols, Index depth, std::size_t element_size);

}  // namespace attn
