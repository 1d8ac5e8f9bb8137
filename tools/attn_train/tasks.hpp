#pragma once

#include <memory>

#include "attn_train/task.hpp"
#include "cli/command.hpp"

namespace attn::tools {

/// The task of a recipe whose objective is classes: predicts the first column of a file, one of the
/// classes in the training data, from the second, a text. Throws the errors of a recipe and of its
/// data.
template <class T>
std::unique_ptr<Task<T>> make_class_task(const Recipe& recipe, const SplitTexts& texts,
                                         int threads);

/// The task of a recipe whose objective is cloze: predicts the word that is missing in a line,
/// among the words of the lines before. Throws the errors of a recipe and of its data.
template <class T>
std::unique_ptr<Task<T>> make_cloze_task(const Recipe& recipe, const SplitTexts& texts,
                                         int threads);

/// The task of a recipe whose objective is a language model, causal or masked. Throws the errors of
/// a recipe and of its data.
template <class T>
std::unique_ptr<Task<T>> make_language_task(const Recipe& recipe, const SplitTexts& texts,
                                            bool allow_leak, int threads);

/// The task of a recipe whose objective is matches: whether the two columns of a pair match. Throws
/// the errors of a recipe and of its data.
template <class T>
std::unique_ptr<Task<T>> make_match_task(const Recipe& recipe, const SplitTexts& texts,
                                         int threads);

/// The task of a recipe whose objective is pairs: an encoder and a decoder, from the first column
/// of a file to the second. Throws the errors of a recipe and of its data.
template <class T>
std::unique_ptr<Task<T>> make_pair_task(const Recipe& recipe, const SplitTexts& texts,
                                        bool allow_leak, int threads);

/// The task of a recipe whose objective is questions about scenes: bundles of `tensor-gen scenes`.
/// Throws the errors of a recipe, and Error(input) for invalid data, or data made with other
/// detectors.
template <class T>
std::unique_ptr<Task<T>> make_question_task(const cli::Arguments& arguments, cli::Report& report,
                                            const Recipe& recipe, const SplitTexts& files);

/// The task of a recipe whose objective is spans: finds the answer to a question in a document.
/// Throws the errors of a recipe and of its data.
template <class T>
std::unique_ptr<Task<T>> make_span_task(const Recipe& recipe, const SplitTexts& texts, int threads);

}  // namespace attn::tools
