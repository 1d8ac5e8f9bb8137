#include "attn_train/tasks.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "attn_train/example_task.hpp"
#include "attn_train/special_tokens.hpp"
#include "train/example_batches.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

// Answers without a model: the most frequent candidate word of the document, the last of equally
// frequent ones; and the last candidate.
struct SimpleAnswers {
  Index most_frequent = -1;
  Index last = -1;
};

SimpleAnswers simple_answers(const Index* words, Index count, const std::vector<bool>& eligible) {
  SimpleAnswers found;
  std::map<Index, Index> counts;
  Index most = 0;
  for (Index i = 0; i < count; ++i) {
    if (!eligible[static_cast<std::size_t>(words[i])]) continue;
    found.last = words[i];
    const Index times = ++counts[words[i]];
    if (times < most) continue;
    most = times;
    found.most_frequent = words[i];
  }
  return found;
}

template <class T>
class ClozeTask : public ExampleTask<T> {
 public:
  ClozeTask(const Recipe& recipe, const SplitTexts& texts, train::Vocabulary vocabulary,
            int threads)
      : ExampleTask<T>(
            recipe, make_mechanism_model(recipe, MechanismSizes::of_questions(vocabulary.size())),
            threads),
        vocabulary_(std::move(vocabulary)) {
    options_.lines = recipe.integer("cloze.lines");
    options_.blank = vocabulary_.special(blank_symbol).value();
    for (Index token = 0; token < vocabulary_.size(); ++token) {
      const std::string& word = vocabulary_.symbols()[static_cast<std::size_t>(token)];
      options_.eligible.push_back(token >= vocabulary_.parts().specials &&
                                  letters_of(word) >= recipe.integer("cloze.letters"));
    }
    for (const Split split : all_splits) {
      if (!texts.of(split).empty()) add_split(texts, split, recipe.integer("run.batch"));
    }
  }

  std::optional<Json> evaluate(const T* weights, Split split, bool outputs) override {
    std::optional<Json> found = ExampleTask<T>::evaluate(weights, split, outputs);
    if (found) found->update(simple_[static_cast<std::size_t>(split)]);
    return found;
  }

  DataSizes data_sizes() const override {
    return this->sizes_of({vocabulary_.size()}, vocabulary_.size());
  }

  void write_vocabulary(io::OutputBundle& bundle) const override {
    write_symbols(vocabulary_, "vocabulary", bundle);
  }

 private:
  // All but the punctuation of ASCII.
  static Index letters_of(const std::string& word) {
    return std::count_if(word.begin(), word.end(), [](char c) {
      const auto byte = static_cast<unsigned char>(c);
      const bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
      // The first byte of a character beyond ASCII.
      return letter || byte >= 0xC0U;
    });
  }

  void add_split(const SplitTexts& texts, Split split, Index batch) {
    const std::string& text = texts.of(split);
    std::vector<std::vector<Index>> lines;
    for (std::size_t from = 0; from < text.size();) {
      const std::size_t end = std::min(text.find('\n', from), text.size());
      lines.push_back(encoded(vocabulary_, text.substr(from, end - from), texts.name(split)));
      from = end + 1;
    }
    try {
      const train::ClozeQuestions questions(std::move(lines), options_);
      auto batches = std::make_unique<train::ClozeBatches>(questions, options_, batch);
      const std::pair<Index, Index> longest = {batches->longest_source(), batches->longest()};
      simple_[static_cast<std::size_t>(split)] = simple_metrics(*batches);
      this->add_batches(split, std::move(batches), longest);
    } catch (const Error& error) {
      throw error.at(texts.name(split) + " (" + name_of(split) + ")");
    }
  }

  // The accuracy of the simple answers.
  Json simple_metrics(const train::Batches& batches) const {
    double frequent = 0;
    double last = 0;
    for (Index n = 0; n < batches.batches(); ++n) {
      for (const train::SlotBatch& slot : batches.evaluation(n)) {
        const train::Sequences documents = slot.source.view();
        for (Index d = 0; d < documents.count; ++d) {
          const SimpleAnswers answers =
              simple_answers(slot.source.tokens.data() + d * documents.length,
                             documents.own_length(d), options_.eligible);
          const Index right = slot.targets.tokens[static_cast<std::size_t>(d)];
          frequent += answers.most_frequent == right ? 1 : 0;
          last += answers.last == right ? 1 : 0;
        }
      }
    }
    const auto count = static_cast<double>(batches.items());
    return {{"accuracy_of_most_frequent", frequent / count}, {"accuracy_of_last", last / count}};
  }

  train::Vocabulary vocabulary_;
  train::ClozeOptions options_;
  std::array<Json, 3> simple_;
};

}  // namespace

template <class T>
std::unique_ptr<Task<T>> make_cloze_task(const Recipe& recipe, const SplitTexts& texts,
                                         int threads) {
  if (recipe.text("data.tokens") != "words") {
    throw recipe.refusal(
        "data.tokens", "is " + recipe.text("data.tokens") + ", but cloze questions ask for words");
  }
  train::Vocabulary vocabulary =
      learn_vocabulary(recipe, texts, "vocabulary", texts.of(Split::train),
                       {std::string(train::unknown_symbol), blank_symbol});
  return std::make_unique<ClozeTask<T>>(recipe, texts, std::move(vocabulary), threads);
}

template std::unique_ptr<Task<float>> make_cloze_task(const Recipe&, const SplitTexts&, int);
template std::unique_ptr<Task<double>> make_cloze_task(const Recipe&, const SplitTexts&, int);

}  // namespace attn::tools
