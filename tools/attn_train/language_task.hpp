#pragma once

#include <memory>

#include "attn_train/task.hpp"
#include "cli/command.hpp"

namespace attn::tools {

/// The task of a recipe whose objective is a language model, causal or masked. Throws the errors of
/// a recipe and of its data.
template <class T>
std::unique_ptr<Task<T>> make_language_task(const Recipe& recipe, const SplitTexts& texts,
                                            bool allow_leak, int threads);

}  // namespace attn::tools
