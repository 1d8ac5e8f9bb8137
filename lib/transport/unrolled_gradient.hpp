#pragma once

#include <cstdint>

#include "attnkit/transport.hpp"
#include "pass/potentials.hpp"
#include "sinkhorn/implicit_gradient.hpp"
#include "sinkhorn/marginals.hpp"
#include "transport/derivatives.hpp"

namespace attn {

/// The derivatives of L through `iterations` plain iterations from f⁰ = 0, with exact marginals
/// (MATHEMATICS.md §2): shows the derivatives by the scores to `to`, and returns those by a (Lq)
/// and b (Lk). `solution` are the potentials of the last iteration, at which L is taken. A mass of
/// 0 has the derivative NaN. Memory grows with the number of iterations. Bits do not depend on the
/// number of threads. Throws whatever the scores and G throw.
template <class T>
Potentials unrolled_gradient(const Scores<T>& scores, const Marginals& marginals,
                             const Potentials& solution, Index iterations,
                             const PlanUpstream<T>& upstream, const ScoreDerivatives<T>& to,
                             int threads);

/// Bytes that it takes besides scores, G, sinks and its result.
std::int64_t unrolled_gradient_bytes(Index rows, Index cols, Index iterations,
                                     std::size_t element_size, int threads);

}  // namespace attn
