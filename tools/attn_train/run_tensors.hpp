#pragma once

#include <functional>
#include <string>
#include <vector>

#include "attn_train/checked_datasets.hpp"
#include "attn_train/task.hpp"
#include "io/input.hpp"

// The tensors of a model as a checkpoint holds them: W_Q, W_K and W_V of an attention are wq, wk,
// wv (heads, width, d), W_O is wo (heads·d, width), as attn-compute --from projection reads them;
// all others are as in lib/train.

namespace attn::tools {

/// Writes all tensors, and for each attention its scheme, its mask and its u.
template <class T>
void write_tensors(const Task<T>& task, const T* weights, CheckedOutput& output);

/// The dataset of a tensor; empty: none.
using TensorName = std::function<std::string(const train::Parameter&)>;

/// Reads the result of write_tensors, each tensor from the dataset of this name; tensors without
/// one stay as they are. Throws Error(input) for another shape or type, and for numbers that are
/// not finite in T.
template <class T>
void read_tensors(const Task<T>& task, const io::InputBundle& bundle, T* weights,
                  const TensorName& name_of);

/// Whether a bundle has, under this name, floating-point numbers in the shape of this tensor.
template <class T>
bool has_tensor(const Task<T>& task, const train::Parameter& one, const io::InputBundle& bundle,
                const std::string& name);

}  // namespace attn::tools
