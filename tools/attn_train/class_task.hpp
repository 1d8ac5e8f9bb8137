#pragma once

#include <memory>

#include "attn_train/task.hpp"

namespace attn::tools {

/// The task of a recipe whose objective is classes: from the second column of a file, a text, to
/// the first, one of the classes that the training data have. Throws the errors of a recipe and of
/// its data.
template <class T>
std::unique_ptr<Task<T>> make_class_task(const Recipe& recipe, const SplitTexts& texts,
                                         int threads);

}  // namespace attn::tools
