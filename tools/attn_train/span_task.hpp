#pragma once

#include <memory>

#include "attn_train/task.hpp"

namespace attn::tools {

/// The task of a recipe whose objective is spans: finds the answer to a question in a document.
/// Throws the errors of a recipe and of its data.
template <class T>
std::unique_ptr<Task<T>> make_span_task(const Recipe& recipe, const SplitTexts& texts, int threads);

}  // namespace attn::tools
