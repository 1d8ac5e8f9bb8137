#pragma once

#include <memory>

#include "attn_train/task.hpp"

namespace attn::tools {

/// The task of a recipe whose objective is classes: predicts the first column of a file, one of the
/// classes in the training data, from the second, a text. Throws the errors of a recipe and of its
/// data.
template <class T>
std::unique_ptr<Task<T>> make_class_task(const Recipe& recipe, const SplitTexts& texts,
                                         int threads);

}  // namespace attn::tools
