#include "train/example_batches.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "attnkit/error.hpp"
#include "tensor/random.hpp"

namespace attn::train {
namespace {

// A uniform number in 0 … count − 1 for an item; in evaluation, without an epoch.
Index drawn(const char* what, const std::optional<Epoch>& epoch, Index items, Index item,
            Index count) {
  const RandomStream stream(epoch ? epoch->seed + 1 : 0, what);
  double u = 0;
  stream.uniform((epoch ? epoch->number : 0) * items + item, 1, &u);
  return std::min(count - 1, static_cast<Index>(u * static_cast<double>(count)));
}

}  // namespace

LabelledBatches::LabelledBatches(std::vector<Labelled> sequences, Index length, Index batch)
    : Batches(std::ssize(sequences), batch), sequences_(std::move(sequences)) {
  if (sequences_.empty()) throw Error(Failure::input, "there are no sequences");
  for (Labelled& one : sequences_) {
    if (cut_to(one.tokens, length)) ++cut_;
  }
}

SlotBatch LabelledBatches::slot(std::span<const Index> items, const std::optional<Epoch>&) const {
  std::vector<std::vector<Index>> inputs;
  SlotBatch slot;
  for (const Index item : items) {
    const Labelled& one = sequences_[static_cast<std::size_t>(item)];
    slot.targets.rows.push_back(std::ssize(inputs));
    slot.targets.tokens.push_back(one.label);
    inputs.push_back(one.tokens);
  }
  slot.input = padded_rows(inputs);
  return slot;
}

MatchBatches::MatchBatches(std::vector<TokenPair> pairs, const PairOptions& options)
    : Batches(2 * std::ssize(pairs), options.batch), pairs_(std::move(pairs)) {
  if (pairs_.empty()) throw Error(Failure::input, "there are no pairs");
  for (TokenPair& pair : pairs_) {
    const bool source = cut_to(pair.source, options.source_length);
    const bool target = cut_to(pair.target, options.length);
    if (source || target) ++cut_;
  }
  const auto is_other = [&](const TokenPair& pair) { return pair.target != pairs_[0].target; };
  if (std::none_of(pairs_.begin(), pairs_.end(), is_other)) {
    throw Error(Failure::input, "all pairs have the same target, so that none is wrong");
  }
}

SlotBatch MatchBatches::slot(std::span<const Index> items,
                             const std::optional<Epoch>& epoch) const {
  std::vector<std::vector<Index>> sources;
  std::vector<std::vector<Index>> inputs;
  SlotBatch slot;
  for (const Index item : items) {
    const auto own = static_cast<std::size_t>(item / 2);
    std::size_t other = own;
    if (item % 2 == 1) {
      const auto count = std::ssize(pairs_);
      const Index step = 1 + drawn("shuffled pairs", epoch, this->items(), item, count - 1);
      other = static_cast<std::size_t>((item / 2 + step) % count);
      while (pairs_[other].target == pairs_[own].target) other = (other + 1) % pairs_.size();
    }
    slot.targets.rows.push_back(std::ssize(sources));
    slot.targets.tokens.push_back(other == own ? matching_class : 1 - matching_class);
    sources.push_back(pairs_[own].source);
    inputs.push_back(pairs_[other].target);
  }
  slot.source = padded_rows(sources);
  slot.input = padded_rows(inputs);
  return slot;
}

namespace {

std::vector<std::vector<Index>> with_words(std::vector<std::vector<Index>> lines) {
  std::erase_if(lines, [](const std::vector<Index>& line) { return line.empty(); });
  return lines;
}

std::vector<Index> words_in(const std::vector<std::vector<Index>>& lines, std::size_t line,
                            const ClozeOptions& options) {
  std::set<Index> before;
  for (std::size_t n = line - static_cast<std::size_t>(options.lines); n < line; ++n) {
    before.insert(lines[n].begin(), lines[n].end());
  }
  std::set<Index> found;
  for (const Index word : lines[line]) {
    if (options.eligible[static_cast<std::size_t>(word)] && before.count(word) > 0) {
      found.insert(word);
    }
  }
  return {found.begin(), found.end()};
}

}  // namespace

ClozeQuestions::ClozeQuestions(std::vector<std::vector<Index>> all, const ClozeOptions& options)
    : lines(with_words(std::move(all))) {
  for (std::size_t line = static_cast<std::size_t>(options.lines); line < lines.size(); ++line) {
    std::vector<Index> words = words_in(lines, line, options);
    if (!words.empty()) questions.push_back({line, std::move(words)});
  }
  if (questions.empty()) {
    throw Error(Failure::input, "no line has a word that occurs in the " +
                                    std::to_string(options.lines) + " lines before it");
  }
}

ClozeBatches::ClozeBatches(ClozeQuestions questions, const ClozeOptions& options, Index batch)
    : Batches(std::ssize(questions.questions), batch),
      questions_(std::move(questions)),
      options_(options) {
  for (const ClozeQuestions::Question& one : questions_.questions) {
    longest_document_ = std::max<Index>(longest_document_, std::ssize(document_of(one.line)));
    longest_question_ = std::max<Index>(longest_question_, std::ssize(questions_.lines[one.line]));
  }
}

std::vector<Index> ClozeBatches::document_of(std::size_t line) const {
  std::vector<Index> document;
  for (std::size_t n = line - static_cast<std::size_t>(options_.lines); n < line; ++n) {
    const std::vector<Index>& words = questions_.lines[n];
    document.insert(document.end(), words.begin(), words.end());
  }
  return document;
}

SlotBatch ClozeBatches::slot(std::span<const Index> items,
                             const std::optional<Epoch>& epoch) const {
  std::vector<std::vector<Index>> documents;
  std::vector<std::vector<Index>> inputs;
  SlotBatch slot;
  for (const Index item : items) {
    const ClozeQuestions::Question& one = questions_.questions[static_cast<std::size_t>(item)];
    const Index chosen = drawn("blanks", epoch, this->items(), item, std::ssize(one.words));
    const Index word = one.words[static_cast<std::size_t>(chosen)];
    slot.targets.rows.push_back(std::ssize(documents));
    slot.targets.tokens.push_back(word);
    documents.push_back(document_of(one.line));
    inputs.push_back(questions_.lines[one.line]);
    std::replace(inputs.back().begin(), inputs.back().end(), word, options_.blank);
  }
  slot.source = padded_rows(documents);
  slot.input = padded_rows(inputs);
  return slot;
}

SpanBatches::SpanBatches(std::vector<SpanQuestion> questions, Index batch)
    : Batches(std::ssize(questions), batch), questions_(std::move(questions)) {
  if (questions_.empty()) throw Error(Failure::input, "there are no questions");
}

SlotBatch SpanBatches::slot(std::span<const Index> items, const std::optional<Epoch>&) const {
  std::vector<std::vector<Index>> documents;
  std::vector<std::vector<Index>> questions;
  SlotBatch slot;
  for (const Index item : items) {
    const SpanQuestion& one = questions_[static_cast<std::size_t>(item)];
    for (const Index position : {one.first, one.last}) {
      slot.targets.rows.push_back(std::ssize(documents));
      slot.targets.tokens.push_back(position);
    }
    documents.push_back(one.document);
    questions.push_back(one.question);
  }
  slot.source = padded_rows(documents);
  slot.input = padded_rows(questions);
  return slot;
}

}  // namespace attn::train
