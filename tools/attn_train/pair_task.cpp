#include "attn_train/tasks.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "attn_train/mechanism_model_task.hpp"
#include "attn_train/model_options.hpp"
#include "attn_train/output_metrics.hpp"
#include "attn_train/pair_vocabulary.hpp"
#include "attn_train/source_weight_output.hpp"
#include "attn_train/transformer_task.hpp"
#include "train/metrics.hpp"
#include "train/pair_batches.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

// Base is the task of a model: it has a constructor (recipe, model, threads), and generates
// outputs.
template <class Base>
class PairTask : public Base {
 public:
  using T = typename Base::Number;

  template <class Model>
  PairTask(const Recipe& recipe, const SplitTexts& texts, PairVocabulary vocabulary, Model&& model,
           int threads)
      : Base(recipe, std::forward<Model>(model), threads),
        vocabulary_(std::move(vocabulary)),
        beam_(recipe.integer("objective.beam")) {
    options_.start = vocabulary_.target.special(start_symbol).value();
    options_.end = vocabulary_.target.special(end_symbol).value();
    options_.source_length = recipe.integer("data.source-length");
    options_.length = recipe.integer("data.length");
    options_.batch = recipe.integer("run.batch");
    for (const Split split : all_splits) {
      if (!texts.of(split).empty()) add_split(texts, split);
    }
    keep_weights(recipe);
  }

  Index cut_pairs() const override { return cut_; }

  DataSizes data_sizes() const override {
    return this->sizes_of({vocabulary_.source.size(), vocabulary_.target.size()},
                          vocabulary_.target.size());
  }

  void write_vocabulary(io::OutputBundle& bundle) const override { vocabulary_.write(bundle); }

 protected:
  Json metrics(const train::Prediction& found) const override {
    Json all = common_metrics(found);
    all["perplexity"] = train::perplexity(all["loss"]);
    return all;
  }

  void add_output_metrics(const T* weights, Split split, Json& metrics) override {
    if (!this->can_generate()) return;
    const Examples& examples = examples_[static_cast<std::size_t>(split)];
    std::vector<std::string> outputs;
    for (const std::vector<Index>& tokens :
         this->generate(weights, examples.sources, output_options())) {
      outputs.push_back(vocabulary_.target.decode(tokens));
    }
    metrics.update(output_metrics(outputs, examples.references, vocabulary_.target.kind()));
  }

  void write_source_weights(const T* weights, io::OutputBundle& bundle) const override {
    if (!kept_weights_) return;
    const auto& batches = dynamic_cast<const train::PairBatches&>(*this->of(*kept_weights_));
    SourceWeightOutput<T> output(bundle, batches.pairs());
    MemoryPool pool;
    const MemoryPool::Use use(&pool);
    train::AttentionPlans<T> plans;
    train::Slot<T> slot;
    slot.weights = weights;
    slot.plans = &plans;
    for (Index n = 0; n < batches.batches(); ++n) {
      for (const train::SlotBatch& batch : batches.evaluation(n)) {
        output.add(batch, this->model().source_weights(slot, batch));
      }
    }
  }

  std::int64_t output_bytes() const override {
    return this->generation_bytes(longest_.first, output_options());
  }

  Index source_weights() const override { return kept_weights_ ? this->attentions_to_source() : 0; }

  bool has_many_lengths() const override { return true; }
  std::pair<Index, Index> longest() const override { return longest_; }

 private:
  // The sources of outputs, and the references for comparison.
  struct Examples {
    std::vector<std::vector<Index>> sources;
    std::vector<std::string> references;
  };

  train::OutputOptions output_options() const {
    train::OutputOptions options;
    options.start = options_.start;
    options.end = options_.end;
    options.length = std::max<Index>(1, options_.length - 1);
    options.beam = beam_;
    return options;
  }

  void keep_weights(const Recipe& recipe) {
    const std::string name = recipe.text("run.keep-weights");
    for (const Split split : all_splits) {
      if (name_of(split) == name) kept_weights_ = split;
    }
    if (!kept_weights_) return;
    const auto refuse = [&](const std::string& why) {
      throw recipe.refusal("run.keep-weights", "is " + name + ", but " + why);
    };
    if (this->of(*kept_weights_) == nullptr) refuse("there are no such data");
    if (this->attentions_to_source() == 0) refuse("the decoder does not attend to the source");
  }

  void add_split(const SplitTexts& texts, Split split) {
    Examples& examples = examples_[static_cast<std::size_t>(split)];
    std::vector<train::TokenPair> pairs;
    for (auto& [source, target] : pairs_in(texts, split)) {
      pairs.push_back({encoded(vocabulary_.source, source, texts.name(split)),
                       encoded(vocabulary_.target, target, texts.name(split))});
      examples.references.push_back(std::move(target));
    }
    auto batches = std::make_unique<train::PairBatches>(std::move(pairs), options_);
    for (const train::TokenPair& pair : batches->pairs()) examples.sources.push_back(pair.source);
    cut_ += batches->cut();
    longest_ = {std::max(longest_.first, batches->longest_source()),
                std::max(longest_.second, batches->longest())};
    this->set_batches(split, std::move(batches));
  }

  PairVocabulary vocabulary_;
  Index beam_;
  std::optional<Split> kept_weights_;
  train::PairOptions options_;
  std::array<Examples, 3> examples_;
  Index cut_ = 0;
  std::pair<Index, Index> longest_;
};

}  // namespace

template <class T>
std::unique_ptr<Task<T>> make_pair_task(const Recipe& recipe, const SplitTexts& texts,
                                        bool allow_leak, int threads) {
  if (recipe.text("model.kind") != "transformer") {
    PairVocabulary vocabulary = learn_pair_vocabulary(recipe, texts);
    auto model = make_mechanism_model(recipe, {.source_vocabulary = vocabulary.source.size(),
                                               .vocabulary = vocabulary.target.size()});
    return std::make_unique<PairTask<MechanismModelTask<T>>>(recipe, texts, std::move(vocabulary),
                                                             std::move(model), threads);
  }
  train::TransformerOptions options = transformer_options(recipe, allow_leak);
  PairVocabulary vocabulary = learn_pair_vocabulary(recipe, texts);
  options.source_vocabulary = vocabulary.source.size();
  options.vocabulary = vocabulary.target.size();
  return std::make_unique<PairTask<TransformerTask<T>>>(recipe, texts, std::move(vocabulary),
                                                        options, threads);
}

template std::unique_ptr<Task<float>> make_pair_task(const Recipe&, const SplitTexts&, bool, int);
template std::unique_ptr<Task<double>> make_pair_task(const Recipe&, const SplitTexts&, bool, int);

}  // namespace attn::tools
