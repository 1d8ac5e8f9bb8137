#include "attn_train/match_task.hpp"

#include <algorithm>
#include <utility>

#include "attn_train/mechanism_model_task.hpp"
#include "attn_train/pair_vocabulary.hpp"
#include "train/example_batches.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr Index classes_of_matches = 2;

template <class T>
class MatchTask : public MechanismModelTask<T> {
 public:
  MatchTask(const Recipe& recipe, const SplitTexts& texts, PairVocabulary vocabulary, int threads)
      : MechanismModelTask<T>(
            recipe,
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

  Index cut_pairs() const override { return cut_; }
  void write_vocabulary(io::OutputBundle& bundle) const override { vocabulary_.write(bundle); }

 protected:
  Json metrics(const train::Prediction& found) const override { return common_metrics(found); }
  bool has_many_lengths() const override { return true; }
  std::pair<Index, Index> longest() const override { return longest_; }

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
      cut_ += batches->cut();
      longest_ = {std::max(longest_.first, batches->longest_source()),
                  std::max(longest_.second, batches->longest())};
      this->set_batches(split, std::move(batches));
    } catch (const Error& error) {
      throw error.at(texts.name(split) + " (" + name_of(split) + ")");
    }
  }

  PairVocabulary vocabulary_;
  Index cut_ = 0;
  std::pair<Index, Index> longest_;
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
