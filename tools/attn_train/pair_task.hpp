#pragma once

#include <memory>

#include "attn_train/task.hpp"

namespace attn::tools {

/// The task of a recipe whose objective is pairs: an encoder and a decoder, from the first column
/// of a file to the second. Throws the errors of a recipe and of its data.
template <class T>
std::unique_ptr<Task<T>> make_pair_task(const Recipe& recipe, const SplitTexts& texts,
                                        bool allow_leak, int threads);

}  // namespace attn::tools
