#pragma once

#include <memory>

#include "attn_train/task.hpp"

namespace attn::tools {

/// The task of a recipe whose objective is matches: whether the two columns of a pair match. Throws
/// the errors of a recipe and of its data.
template <class T>
std::unique_ptr<Task<T>> make_match_task(const Recipe& recipe, const SplitTexts& texts,
                                         int threads);

}  // namespace attn::tools
