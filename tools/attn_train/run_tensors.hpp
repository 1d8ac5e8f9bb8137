#pragma once

#include <functional>
#include <string>
#include <vector>

#include "attn_train/task.hpp"
#include "io/input.hpp"

// The tensors of a model as a checkpoint holds them: W_Q, W_K and W_V of an attention are wq, wk,
// wv (heads, width, d), W_O is wo (heads·d, width), as attn-compute --from projection reads them;
// all others are as in lib/train.

namespace attn::tools {

/// Writes all tensors, and for each attention its scheme, its mask and its u.
template <class T>
void write_tensors(const Task<T>& task, const T* weights, io::OutputBundle& bundle);

/// Reads the result of write_tensors, of the tensors that are `chosen`. Throws Error(input).
template <class T>
void read_tensors(const Task<T>& task, const io::InputBundle& bundle, T* weights,
                  const std::function<bool(const train::Parameter&)>& chosen);

/// Whether a bundle has this tensor of the task's model: floating-point numbers under its name, in
/// its shape.
template <class T>
bool has_tensor(const Task<T>& task, const train::Parameter& one, const io::InputBundle& bundle);

}  // namespace attn::tools
