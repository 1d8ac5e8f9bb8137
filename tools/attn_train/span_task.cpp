#include "attn_train/tasks.hpp"

#include <algorithm>
#include <charconv>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "attn_train/example_task.hpp"
#include "train/example_batches.hpp"

namespace attn::tools {
namespace {

// "3-5" as {3, 5}; {1, 0} for any other text.
std::pair<Index, Index> span_of(const std::string& text) {
  const char* const end = text.data() + text.size();
  std::pair<Index, Index> span;
  const auto first = std::from_chars(text.data(), end, span.first);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '-') return {1, 0};
  const auto last = std::from_chars(first.ptr + 1, end, span.second);
  if (last.ec != std::errc() || last.ptr != end) return {1, 0};
  return span;
}

template <class T>
class SpanTask : public ExampleTask<T> {
 public:
  SpanTask(const Recipe& recipe, const SplitTexts& texts, train::Vocabulary vocabulary, int threads)
      : ExampleTask<T>(
            recipe, make_mechanism_model(recipe, MechanismSizes::of_questions(vocabulary.size())),
            threads),
        vocabulary_(std::move(vocabulary)) {
    for (const Split split : all_splits) {
      if (!texts.of(split).empty()) add_split(texts, split, recipe.integer("run.batch"));
    }
  }

  // The positions of an answer depend on the length of its document.
  DataSizes data_sizes() const override { return this->sizes_of({vocabulary_.size()}, 0); }

  void write_vocabulary(io::OutputBundle& bundle) const override {
    write_symbols(vocabulary_, "vocabulary", bundle);
  }

 private:
  void add_split(const SplitTexts& texts, Split split, Index batch) {
    std::vector<train::SpanQuestion> questions;
    for (const auto& columns : columns_in(texts, split, 3)) {
      train::SpanQuestion one;
      one.document = encoded(vocabulary_, columns[0], texts.name(split));
      one.question = encoded(vocabulary_, columns[1], texts.name(split));
      std::tie(one.first, one.last) = span_of(columns[2]);
      if (one.first < 0 || one.first > one.last || one.last >= std::ssize(one.document)) {
        throw Error(Failure::input,
                    fmt::format("{}:{}: the answer is {}, expected two positions in 0 to {}, as in "
                                "0-1",
                                texts.name(split), questions.size() + 1, columns[2],
                                std::ssize(one.document) - 1));
      }
      questions.push_back(std::move(one));
    }
    auto batches = std::make_unique<train::SpanBatches>(std::move(questions), batch);
    const std::pair<Index, Index> longest = {batches->longest_source(), batches->longest()};
    this->add_batches(split, std::move(batches), longest);
  }

  train::Vocabulary vocabulary_;
};

}  // namespace

template <class T>
std::unique_ptr<Task<T>> make_span_task(const Recipe& recipe, const SplitTexts& texts,
                                        int threads) {
  std::string all;
  for (const auto& columns : columns_in(texts, Split::train, 3)) {
    all += columns[0] + "\n" + columns[1] + "\n";
  }
  train::Vocabulary vocabulary =
      learn_vocabulary(recipe, texts, "vocabulary", all, {std::string(train::unknown_symbol)});
  return std::make_unique<SpanTask<T>>(recipe, texts, std::move(vocabulary), threads);
}

template std::unique_ptr<Task<float>> make_span_task(const Recipe&, const SplitTexts&, int);
template std::unique_ptr<Task<double>> make_span_task(const Recipe&, const SplitTexts&, int);

}  // namespace attn::tools
