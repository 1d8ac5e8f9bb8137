#include "attn_train/tasks.hpp"

#include <utility>

#include <fmt/format.h>

#include "attn_train/mechanism_model_task.hpp"
#include "attn_train/model_options.hpp"
#include "attn_train/special_tokens.hpp"
#include "attn_train/transformer_task.hpp"
#include "train/metrics.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

// Base is the task of a model, with a constructor (recipe, model, threads).
template <class Base>
class LanguageTask : public Base {
 public:
  template <class Model>
  LanguageTask(const Recipe& recipe, const SplitTexts& texts, train::Vocabulary vocabulary,
               Model&& model, int threads)
      : Base(recipe, std::forward<Model>(model), threads),
        vocabulary_(std::move(vocabulary)),
        causal_(recipe.text("objective.kind") == "causal") {
    const Index length = recipe.integer("data.length");
    const Index batch = recipe.integer("run.batch");
    for (const Split split : all_splits) {
      if (texts.of(split).empty()) continue;
      std::vector<Index> tokens = encoded(vocabulary_, texts.of(split), texts.name(split));
      tokens_[static_cast<std::size_t>(split)] = std::ssize(tokens);
      try {
        this->set_batches(split, make_batches(std::move(tokens), length, batch));
      } catch (const Error& error) {
        throw error.at(texts.name(split) + " (" + name_of(split) + ")");
      }
    }
  }

  DataSizes data_sizes() const override {
    DataSizes sizes = this->sizes_of({vocabulary_.size()}, vocabulary_.size());
    sizes.tokens = tokens_;
    return sizes;
  }

  void write_vocabulary(io::OutputBundle& bundle) const override {
    write_symbols(vocabulary_, "vocabulary", bundle);
  }

 protected:
  Json metrics(const train::Prediction& found) const override {
    Json all = common_metrics(found);
    if (found.order_count > 0) {
      const auto count = static_cast<double>(found.order_count);
      all["order_loss"] = found.order_loss / count;
      all["order_accuracy"] = static_cast<double>(found.order_correct) / count;
    }
    if (!causal_) return all;
    const double loss = all["loss"];
    all["perplexity"] = train::perplexity(loss);
    if (vocabulary_.kind() == train::TokenKind::characters) {
      all["bits_per_character"] = train::bits_per_character(loss);
    }
    return all;
  }

 private:
  std::unique_ptr<train::Batches> make_batches(std::vector<Index> tokens, Index length,
                                               Index batch) const {
    if (causal_) return std::make_unique<train::CausalBatches>(std::move(tokens), length, batch);
    train::MaskTokens masks;
    masks.mask = vocabulary_.special(mask_symbol).value();
    masks.first_random = vocabulary_.parts().specials;
    masks.vocabulary = vocabulary_.size();
    std::optional<train::OrderTokens> order;
    if (const auto first = vocabulary_.special(first_symbol)) {
      order = {*first, vocabulary_.special(separator_symbol).value()};
    }
    return std::make_unique<train::MaskedBatches>(std::move(tokens), length, batch, masks, order);
  }

  train::Vocabulary vocabulary_;
  std::array<Index, 3> tokens_ = {};  // by split
  bool causal_;
};

}  // namespace

template <class T>
std::unique_ptr<Task<T>> make_language_task(const Recipe& recipe, const SplitTexts& texts,
                                            bool allow_leak, int threads) {
  if (recipe.text("model.kind") != "transformer") {
    train::Vocabulary vocabulary = learn_vocabulary(
        recipe, texts, "vocabulary", texts.of(Split::train), {std::string(train::unknown_symbol)});
    auto model = make_mechanism_model(recipe, {.vocabulary = vocabulary.size()});
    return std::make_unique<LanguageTask<MechanismModelTask<T>>>(
        recipe, texts, std::move(vocabulary), std::move(model), threads);
  }
  train::TransformerOptions options = transformer_options(recipe, allow_leak);
  if (options.order && options.length < train::least_ordered_length) {
    throw recipe.refusal(
        "data.length",
        fmt::format("is {}; objective.order needs at least {}: [CLS] A [SEP] B [SEP]",
                    options.length, train::least_ordered_length));
  }
  std::vector<std::string> specials = {std::string(train::unknown_symbol)};
  if (recipe.text("objective.kind") == "masked") specials.push_back(mask_symbol);
  if (options.order) specials.insert(specials.end(), {first_symbol, separator_symbol});
  train::Vocabulary vocabulary =
      learn_vocabulary(recipe, texts, "vocabulary", texts.of(Split::train), std::move(specials));
  options.vocabulary = vocabulary.size();
  return std::make_unique<LanguageTask<TransformerTask<T>>>(recipe, texts, std::move(vocabulary),
                                                            options, threads);
}

template std::unique_ptr<Task<float>> make_language_task(const Recipe&, const SplitTexts&, bool,
                                                         int);
template std::unique_ptr<Task<double>> make_language_task(const Recipe&, const SplitTexts&, bool,
                                                          int);

}  // namespace attn::tools
