#pragma once

#include <memory>

#include "attn_train/task.hpp"

namespace attn::tools {

/// The task of a recipe whose objective is cloze: predicts the word that is missing in a line,
/// among the words of the lines before. Throws the errors of a recipe and of its data.
template <class T>
std::unique_ptr<Task<T>> make_cloze_task(const Recipe& recipe, const SplitTexts& texts,
                                         int threads);

}  // namespace attn::tools
