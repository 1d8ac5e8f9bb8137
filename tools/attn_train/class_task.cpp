#include "attn_train/tasks.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "attn_train/example_task.hpp"
#include "train/example_batches.hpp"

namespace attn::tools {
namespace {

template <class T>
class ClassTask : public ExampleTask<T> {
 public:
  ClassTask(const Recipe& recipe, const SplitTexts& texts, train::Vocabulary vocabulary,
            std::vector<std::string> classes, int threads)
      : ExampleTask<T>(recipe,
                       make_mechanism_model(recipe, {.source_vocabulary = 0,
                                                     .vocabulary = vocabulary.size(),
                                                     .joint = false,
                                                     .classes = std::ssize(classes)}),
                       threads),
        vocabulary_(std::move(vocabulary)),
        classes_(std::move(classes)) {
    for (const Split split : all_splits) {
      if (!texts.of(split).empty()) add_split(recipe, texts, split);
    }
  }

  DataSizes data_sizes() const override {
    return this->sizes_of({vocabulary_.size()}, std::ssize(classes_));
  }

  void write_vocabulary(io::OutputBundle& bundle) const override {
    write_symbols(vocabulary_, "vocabulary", bundle);
    bundle.write_strings("classes", classes_, {"class"});
  }

 private:
  void add_split(const Recipe& recipe, const SplitTexts& texts, Split split) {
    std::vector<train::Labelled> sequences;
    for (const auto& [label, text] : pairs_in(texts, split)) {
      const auto found = std::lower_bound(classes_.begin(), classes_.end(), label);
      if (found == classes_.end() || *found != label) {
        throw Error(Failure::input,
                    fmt::format("{}:{}: the class {} is not among those of the training data",
                                texts.name(split), std::ssize(sequences) + 1, label));
      }
      sequences.push_back(
          {encoded(vocabulary_, text, texts.name(split)), found - classes_.begin()});
    }
    auto batches = std::make_unique<train::LabelledBatches>(
        std::move(sequences), recipe.integer("data.length"), recipe.integer("run.batch"));
    const std::pair<Index, Index> longest = {0, batches->longest()};
    const Index cut = batches->cut();
    this->add_batches(split, std::move(batches), longest, cut);
  }

  train::Vocabulary vocabulary_;
  std::vector<std::string> classes_;  // in ascending order
};

}  // namespace

template <class T>
std::unique_ptr<Task<T>> make_class_task(const Recipe& recipe, const SplitTexts& texts,
                                         int threads) {
  std::string all;
  std::set<std::string> classes;
  for (const auto& [label, text] : pairs_in(texts, Split::train)) {
    all += text + "\n";
    classes.insert(label);
  }
  train::Vocabulary vocabulary =
      learn_vocabulary(recipe, all, texts.name(Split::train), {std::string(train::unknown_symbol)});
  return std::make_unique<ClassTask<T>>(recipe, texts, std::move(vocabulary),
                                        std::vector<std::string>(classes.begin(), classes.end()),
                                        threads);
}

template std::unique_ptr<Task<float>> make_class_task(const Recipe&, const SplitTexts&, int);
template std::unique_ptr<Task<double>> make_class_task(const Recipe&, const SplitTexts&, int);

}  // namespace attn::tools
