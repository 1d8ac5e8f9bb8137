#pragma once

#include <functional>
#include <span>
#include <string>

#include "tensor/view.hpp"

namespace attn {

/// out = x w + 1·biasᵀ for x (L, D), w (D, d), bias (d) or empty, out (L, d), all finite: the
/// queries, keys or values of one head from the input of a layer. Runs single-threaded products on
/// up to `threads` threads over a partition fixed by the shape, so the bits do not depend on the
/// number of threads. Error: D + 1 roundings of Σ|x||w| + |bias|. Throws Error(input) if the shapes
/// disagree, and Error(numerical) naming what() and the row of a result beyond T's range.
template <class T>
void project(MatrixView<const T> x, MatrixView<const T> w, std::span<const T> bias,
             MatrixView<T> out, int threads, const std::function<std::string()>& what);

}  // namespace attn
