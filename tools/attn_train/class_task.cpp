#include "attn_train/tasks.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "attn_train/example_task.hpp"
#include "attn_train/model_options.hpp"
#include "attn_train/transformer_task.hpp"
#include "train/example_batches.hpp"

namespace attn::tools {
namespace {

// Base is the task of a model, with a constructor (recipe, model, threads).
template <class T, class Base>
class ClassTask : public ExampleTask<T, Base> {
 public:
  template <class Model>
  ClassTask(const Recipe& recipe, const SplitTexts& texts, train::Vocabulary vocabulary,
            std::vector<std::string> classes, Model&& model, int threads)
      : ExampleTask<T, Base>(recipe, std::forward<Model>(model), threads),
        vocabulary_(std::move(vocabulary)),
        classes_(std::move(classes)) {
    for (const Split split : all_splits) {
      if (!texts.of(split).empty()) add_split(recipe, texts, split);
    }
  }

  DataSizes data_sizes() const override {
    return this->sizes_of({vocabulary_.size()}, std::ssize(classes_));
  }

  std::vector<std::string> classes() const override { return classes_; }

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
      learn_vocabulary(recipe, texts, "vocabulary", all, {std::string(train::unknown_symbol)});
  std::vector<std::string> names(classes.begin(), classes.end());
  const auto make = [&]<class Base>(auto&& model) -> std::unique_ptr<Task<T>> {
    return std::make_unique<ClassTask<T, Base>>(recipe, texts, std::move(vocabulary),
                                                std::move(names),
                                                std::forward<decltype(model)>(model), threads);
  };
  if (recipe.text("model.kind") == "transformer") {
    train::TransformerOptions options = transformer_options(recipe, false);
    options.vocabulary = vocabulary.size();
    options.classes = std::ssize(names);
    return make.template operator()<TransformerTask<T>>(options);
  }
  return make.template operator()<MechanismModelTask<T>>(
      make_mechanism_model(recipe, {.source_vocabulary = 0,
                                    .vocabulary = vocabulary.size(),
                                    .joint = false,
                                    .classes = std::ssize(names)}));
}

template std::unique_ptr<Task<float>> make_class_task(const Recipe&, const SplitTexts&, int);
template std::unique_ptr<Task<double>> make_class_task(const Recipe&, const SplitTexts&, int);

}  // namespace attn::tools
