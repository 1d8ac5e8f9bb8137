#pragma once

#include <cstdint>

#include "gradient/gradient.hpp"
#include "pass/potentials.hpp"

namespace attn {

/// Backward through a number whose derivative by the score s_ij is coefficient·π_ij, such as the
/// dual value of transport, for which it is −1: shows dS = coefficient·π, π_ij = exp((s_ij − g_j) −
/// f_i), to the sinks of `targets`. Bits do not depend on the number of threads. Throws whatever
/// the scores throw.
template <class T>
void differentiate_plan(const Scores<T>& scores, const Potentials& potentials, double coefficient,
                        const GradientTargets<T>& targets, int threads);

/// Bytes of scratch memory of differentiate_plan, without sinks.
std::int64_t differentiate_plan_bytes(Index rows, Index cols, std::size_t element_size,
                                      int threads);

}  // namespace attn
