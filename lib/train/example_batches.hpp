#pragma once

#include <vector>

#include "train/language_batches.hpp"
#include "train/pair_batches.hpp"

namespace attn::train {

/// A sequence and its class.
struct Labelled {
  std::vector<Index> tokens;
  Index label = 0;
};

/// Batches of sequences, each with one target, its class, on row n of the slot's n-th sequence.
class LabelledBatches : public Batches {
 public:
  /// Requires length and batch >= 1. Tokens beyond `length` are cut off. Throws Error(input) if
  /// there are no sequences.
  LabelledBatches(std::vector<Labelled> sequences, Index length, Index batch);

  Index cut() const { return cut_; }  ///< the number of sequences that were cut
  /// The most tokens of a sequence.
  Index longest() const { return most_tokens(sequences_, &Labelled::tokens); }

 protected:
  SlotBatch slot(std::span<const Index> items, const std::optional<Epoch>& epoch) const override;

 private:
  std::vector<Labelled> sequences_;
  Index cut_ = 0;
};

/// The class of a matching pair.
inline constexpr Index matching_class = 1;

/// Batches of pairs; half match, class 1, and half do not, class 0. Item 2n is pair n; item 2n + 1
/// is the source of pair n with the target of another pair, such that the two targets differ. All
/// other pairs are equally likely, but a pair with the same target is replaced by the next one. The
/// choice is a function of (seed, epoch, item) by RandomStream(seed, "shuffled pairs"); in
/// evaluation, of the item alone.
class MatchBatches : public Batches {
 public:
  /// As PairBatches; `options.start` and `end` are ignored. Throws Error(input) if there are no
  /// pairs, or if all targets are equal.
  MatchBatches(std::vector<TokenPair> pairs, const PairOptions& options);

  Index cut() const { return cut_; }
  Index longest_source() const { return most_tokens(pairs_, &TokenPair::source); }
  Index longest() const { return most_tokens(pairs_, &TokenPair::target); }

 protected:
  SlotBatch slot(std::span<const Index> items, const std::optional<Epoch>& epoch) const override;

 private:
  std::vector<TokenPair> pairs_;
  Index cut_ = 0;
};

/// A question about a document, whose answer is the positions first … last of it.
struct SpanQuestion {
  std::vector<Index> document;
  std::vector<Index> question;
  Index first = 0;
  Index last = 0;
};

/// Batches of documents as sources and questions as inputs; sequence n of a slot has two targets on
/// row n, the first and the last position of its answer.
class SpanBatches : public Batches {
 public:
  /// Requires 0 <= first <= last < the length of the document for each question, and batch >= 1.
  /// Throws Error(input) if there are no questions.
  SpanBatches(std::vector<SpanQuestion> questions, Index batch);

  Index longest_source() const { return most_tokens(questions_, &SpanQuestion::document); }
  Index longest() const { return most_tokens(questions_, &SpanQuestion::question); }

 protected:
  SlotBatch slot(std::span<const Index> items, const std::optional<Epoch>& epoch) const override;

 private:
  std::vector<SpanQuestion> questions_;
};

struct ClozeOptions {
  Index lines = 20;            ///< of a document
  Index blank = 0;             ///< the token in place of the answer
  std::vector<bool> eligible;  ///< by token: whether it may be an answer
};

/// Questions about a text. A document is some consecutive lines with words. The question is the
/// next such line, in which a word that the document also has is the answer. Every line with such
/// words is a question.
struct ClozeQuestions {
  struct Question {
    std::size_t line;
    std::vector<Index> words;  ///< possible answers, each once, in ascending order
  };

  /// Requires options.lines >= 1. Throws Error(input) if there is no question.
  ClozeQuestions(std::vector<std::vector<Index>> all, const ClozeOptions& options);

  std::vector<std::vector<Index>> lines;  ///< with words
  std::vector<Question> questions;
};

/// Batches of documents as sources and questions as inputs, in which every occurrence of the answer
/// is a blank; the target is the answer. All possible answers of a question are equally likely. The
/// choice is a function of (seed, epoch, item) by RandomStream(seed, "blanks"); in evaluation, of
/// the item alone.
class ClozeBatches : public Batches {
 public:
  /// Requires batch >= 1.
  ClozeBatches(ClozeQuestions questions, const ClozeOptions& options, Index batch);

  Index longest_source() const { return longest_document_; }
  Index longest() const { return longest_question_; }

 protected:
  SlotBatch slot(std::span<const Index> items, const std::optional<Epoch>& epoch) const override;

 private:
  std::vector<Index> document_of(std::size_t line) const;

  ClozeQuestions questions_;
  ClozeOptions options_;
  Index longest_document_ = 0;
  Index longest_question_ = 0;
};

}  // namespace attn::train
