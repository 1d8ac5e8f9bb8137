#pragma once

#include <memory>
#include <vector>

#include "gradient/gradient_sink.hpp"
#include "head/head.hpp"

namespace attn {

/// The adjoints of a head's bias (Lq or 1, Lk or 1) and of the table of T5's relative positions
/// (buckets, heads), of which those columns that are not the head's are set to 0. Without data
/// there is none. The gradients are the caller's memory; see bias_gradient.hpp.
template <class T>
std::vector<std::unique_ptr<GradientSink<T>>> bias_sinks(const ScoreRecipe& recipe,
                                                         const HeadArrays<T>& head,
                                                         MatrixView<T> bias,
                                                         MatrixView<T> relative_bias);

}  // namespace attn
