#include "attn_train/tasks.hpp"

#include <algorithm>
#include <utility>

#include "attn_train/example_task.hpp"
#include "attn_train/pair_vocabulary.hpp"
#include "train/example_batches.hpp"

namespace attn::tools {
namespace {

constexpr Index classes_of_matches = 2;

template <class T>
class MatchTask : public ExampleTask<T> {
 public:
  MatchTask(const Recipe& recipe, const SplitTexts& texts, PairVocabulary vocabulary, int threads)
      : ExampleTask<T>(recipe,
                       make_mechanism_model(recipe, {.source_vocabulary = vocabulary.source.size(),
                                                     .vocabulary = vocabulary.target.size(),
                                                     .joint = recipe.flag("data.joint"),
                                                     .classes = classes_of_matches}),
                       threads),
        vocabulary_(std::move(vocabulary)) {
    for (const Split split : all_splits) {
      if (!texts.of(split).empty()) add_split(recipe, texts, split);
    }
  }

  DataSizes data_sizes() const override {
    return this->sizes_of({vocabulary_.source.size(), vocabulary_.target.size()},
                          classes_of_matches);
  }

  void write_vocabulary(io::OutputBundle& bundle) const override { vocabulary_.write(bundle); }

 private:
  void add_split(const Recipe& recipe, const SplitTexts& texts, Split split) {
    std::vector<train::TokenPair> pairs;
    for (const auto& [source, target] : pairs_in(texts, split)) {
      pairs.push_back({encoded(vocabulary_.source, source, texts.name(split)),
                       encoded(vocabulary_.target, target, texts.name(split))});
    }
    train::PairOptions options;
    options.source_length = recipe.integer("data.source-length");
    options.length = recipe.integer("data.length");
    options.batch = recipe.integer("run.batch");
    try {
      auto batches = std::make_unique<train::MatchBatches>(std::move(pairs), options);
      const std::pair<Index, Index> longest = {batches->longest_source(), batches->longest()};
      const Index cut = batches->cut();
      this->add_batches(split, std::move(batches), longest, cut);
    } catch (const Error& error) {
      throw error.at(texts.name(split) + " (" + name_of(split) + ")");
    }
  }

  PairVocabulary vocabulary_;
};

}  // namespace

template <class T>
std::unique_ptr<Task<T>> make_match_task(const Recipe& recipe, const SplitTexts& texts,
                                         int threads) {
  return std::make_unique<MatchTask<T>>(recipe, texts, learn_pair_vocabulary(recipe, texts),
                                        threads);
}

template std::unique_ptr<Task<float>> make_match_task(const Recipe&, const SplitTexts&, int);
template std::unique_ptr<Task<double>> make_match_task(const Recipe&, const SplitTexts&, int);

}  // namespace attn::tools
