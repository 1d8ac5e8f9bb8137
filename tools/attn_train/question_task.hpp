#pragma once

#include <memory>

#include "attn_train/task.hpp"
#include "cli/command.hpp"

namespace attn::tools {

/// The task of a recipe whose objective is questions about scenes: bundles of `tensor-gen scenes`.
/// Throws the errors of a recipe, and Error(input) for invalid data, or data made with other
/// detectors.
template <class T>
std::unique_ptr<Task<T>> make_question_task(const cli::Arguments& arguments, cli::Report& report,
                                            const Recipe& recipe, const SplitTexts& files);

}  // namespace attn::tools
