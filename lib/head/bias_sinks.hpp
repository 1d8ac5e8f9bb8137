#pragma once

#include <memory>
#include <vector>

#include "gradient/gradient_sink.hpp"
#include "head/head.hpp"

namespace attn {

/// The adjoints of a head's bias (Lq or 1, Lk or 1) and of the table of T5's relative positions
/// (buckets, heads), whose columns of other heads are set to 0. A gradient without data has no
/// adjoint. The gradients are the caller's memory; see bias_gradient.hpp.
template <class T>
std::vector<std::unique_ptr<GradientSink<T>>> bias_sinks(const ScoreRecipe& recipe,
                                                         const HeadArrays<T>& head,
                                                         MatrixView<T> bias,
                                                         MatrixView<T> relative_bias);

}  // namespace attn
