#pragma once

#include <memory>

#include "energy/energy_description.hpp"
#include "pass/potentials.hpp"
#include "score/energy.hpp"
#include "score/scores.hpp"
#include "sinkhorn/exact_transport.hpp"
#include "sinkhorn/implicit_gradient.hpp"
#include "tensor/pooled_vector.hpp"

/// Transport between points x (Lq, d) and y (Lk, d) with the cost |x_i − y_j|²: all but the plan
/// between them.
namespace attn {

/// The scores −|x_i − x_j|²/ε of points (N, d) with themselves. The points must outlive the scores.
template <class T>
class SelfScores {
 public:
  SelfScores(MatrixView<const T> points, double epsilon);

  const Scores<T>& scores() const { return scores_; }

 private:
  std::unique_ptr<Energy<T>> energy_;
  Scores<T> scores_;
};

/// Subtracts from `gradient` (N, d) the derivative by the points, through both copies of each, of
/// half of the value of transport between the points and themselves. `potentials` belong to
/// `scores` of SelfScores. Does nothing without data.
template <class T>
void subtract_self_gradient(MatrixView<const T> points, const Scores<T>& scores,
                            const Potentials& potentials, MatrixView<T> gradient, int threads);

/// Adds to `gradient` (N, d) the derivative of a number L with respect to the points, through both
/// copies of each point. The derivative of L with respect to their scores, SelfScores with epsilon
/// = `unit`, is π_ij (u_i + v_j). Does nothing without data.
template <class T>
void add_self_solution_gradient(MatrixView<const T> points, const Scores<T>& scores,
                                const Potentials& potentials, const ImplicitGradient& solved,
                                double unit, MatrixView<T> gradient, int threads);

/// Writes the derivatives by x and y of the cost of a plan with these pairs: 2 Σ_j π_ij (x_i −
/// y_j), and 2 Σ_i π_ij (y_j − x_i). A view without data is not requested.
template <class T>
void write_plan_gradient(MatrixView<const T> x, MatrixView<const T> y,
                         const PooledVector<PlanPair>& pairs, const EnergyGradients<T>& to);

/// Adds to `gradient` (Lq, d) 2 e_i (x_i − Σ_j d_j y_j / Σ d): the derivative by x of the cost of
/// e_i d_j / Σ d, the mass that a rounded plan adds. Does nothing without data, or if Σ d = 0.
template <class T>
void add_missing_gradient(MatrixView<const T> x, const PooledVector<double>& e,
                          MatrixView<const T> y, const PooledVector<double>& d,
                          MatrixView<T> gradient);

}  // namespace attn
