#pragma once

#include <cstdint>
#include <span>

#include "gradient/gradient.hpp"
#include "pass/potentials.hpp"

namespace attn {

/// Backward through a number whose derivative with respect to the score s_ij is coefficient·π_ij,
/// such as the dual value of transport, with the coefficient −1. Shows dS = coefficient·π, π_ij =
/// exp((s_ij − g_j) − f_i), to the sinks of `targets`. Bits do not depend on the number of threads.
/// Throws whatever the scores throw.
template <class T>
void differentiate_plan(const Scores<T>& scores, const Potentials& potentials, double coefficient,
                        const GradientTargets<T>& targets, int threads);

/// A plan exp((s_ij − g_j) − f_i), and the coefficient of its part.
struct PlanTerm {
  double coefficient = 1;
  std::span<const double> row;  ///< f (Lq)
  std::span<const double> col;  ///< g (Lk)
};

/// The same through several plans of the same scores: dS = Σ coefficient·π.
template <class T>
void differentiate_plans(const Scores<T>& scores, std::span<const PlanTerm> plans,
                         const GradientTargets<T>& targets, int threads);

/// Backward through a plan and the equations that its potentials solve (implicit_gradient of
/// sinkhorn/implicit_gradient.hpp): shows dS = π_ij (G_ij + u_i + v_j), with G (Lq, Lk), null for
/// 0, u (Lq) and v (Lk).
template <class T>
void differentiate_solution(const Scores<T>& scores, const Potentials& potentials,
                            const MatrixSource<T>* g, std::span<const double> u,
                            std::span<const double> v, const GradientTargets<T>& targets,
                            int threads);

/// A plan exp((s_ij − g_j) − f_i), and the terms of its part.
struct SolutionTerm {
  double coefficient = 1;
  std::span<const double> row;  ///< f (Lq)
  std::span<const double> col;  ///< g (Lk)
  std::span<const double> u;    ///< (Lq)
  std::span<const double> v;    ///< (Lk)
};

/// The same through several plans of the same scores: dS = Σ coefficient·π_ij (G_ij + u_i + v_j).
template <class T>
void differentiate_solutions(const Scores<T>& scores, std::span<const SolutionTerm> solutions,
                             const MatrixSource<T>* g, const GradientTargets<T>& targets,
                             int threads);

/// The forward step of a plan without values: products are G, or 0 for null. It refers to both.
template <class T>
struct PlanForward {
  PlanForward(const Scores<T>& scores, const MatrixSource<T>* g);

  Buffer<T> zeros;
  Forward<T> forward;
  TileProduct<T> products;
};

/// Bytes of scratch memory of any of these functions, without sinks.
std::int64_t differentiate_plans_bytes(Index rows, Index cols, Index plans,
                                       std::size_t element_size, int threads);

}  // namespace attn
