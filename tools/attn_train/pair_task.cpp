#include "attn_train/pair_task.hpp"

#include <algorithm>
#include <utility>

#include "attn_train/model_options.hpp"
#include "attn_train/output_metrics.hpp"
#include "attn_train/transformer_task.hpp"
#include "train/decoder_output.hpp"
#include "train/metrics.hpp"
#include "train/pair_batches.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

const std::string start_symbol = "<s>";
const std::string end_symbol = "</s>";

// The symbols of both columns; with data.joint they are the same.
struct PairVocabulary {
  train::Vocabulary source;
  train::Vocabulary target;
};

template <class T>
class PairTask : public TransformerTask<T> {
 public:
  PairTask(const Recipe& recipe, const SplitTexts& texts, PairVocabulary vocabulary,
           const train::TransformerOptions& options, int threads)
      : TransformerTask<T>(recipe, options, threads),
        vocabulary_(std::move(vocabulary)),
        beam_(recipe.integer("objective.beam")),
        generates_(options.decoder.scheme.scheme == Scheme::unas &&
                   options.cross.scheme.scheme == Scheme::unas) {
    options_.start = vocabulary_.target.special(start_symbol).value();
    options_.end = vocabulary_.target.special(end_symbol).value();
    options_.source_length = options.source_length;
    options_.length = options.length;
    options_.batch = recipe.integer("run.batch");
    for (const Split split : all_splits) {
      if (!texts.of(split).empty()) add_split(texts, split);
    }
  }

  Index cut_pairs() const override { return cut_; }

  void write_vocabulary(io::OutputBundle& bundle) const override {
    write_symbols(vocabulary_.source, "source_vocabulary", bundle);
    write_symbols(vocabulary_.target, "target_vocabulary", bundle);
  }

 protected:
  Json metrics(const train::Prediction& found) const override {
    Json all = common_metrics(found);
    all["perplexity"] = train::perplexity(all["loss"]);
    return all;
  }

  void add_output_metrics(const T* weights, Split split, Json& metrics) override {
    if (!generates_) return;
    const Examples& examples = examples_[static_cast<std::size_t>(split)];
    std::vector<std::string> outputs;
    for (const std::vector<Index>& tokens : train::decoder_outputs(
             this->model(), weights, examples.sources, output_options(), this->threads())) {
      outputs.push_back(vocabulary_.target.decode(tokens));
    }
    metrics.update(output_metrics(outputs, examples.references, vocabulary_.target.kind()));
  }

  std::int64_t output_bytes() const override {
    return train::decoder_output_bytes<T>(this->model(), longest_.first, output_options(),
                                          this->threads());
  }

  bool has_many_lengths() const override { return true; }
  std::pair<Index, Index> longest() const override { return longest_; }

 private:
  // What outputs are generated from, and compared with.
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
  bool generates_;  // token by token: not where later tokens change the weights of earlier ones
  train::PairOptions options_;
  std::array<Examples, 3> examples_;
  Index cut_ = 0;
  std::pair<Index, Index> longest_;
};

// The columns of all pairs, one text each.
std::pair<std::string, std::string> columns_of(const TextPairs& pairs) {
  std::pair<std::string, std::string> columns;
  for (const auto& [source, target] : pairs) {
    columns.first += source + "\n";
    columns.second += target + "\n";
  }
  return columns;
}

PairVocabulary learn_pair_vocabulary(const Recipe& recipe, const SplitTexts& texts) {
  auto [source, target] = columns_of(pairs_in(texts, Split::train));
  const std::string& file = texts.name(Split::train);
  const std::vector<std::string> specials = {std::string(train::unknown_symbol), start_symbol,
                                             end_symbol};
  if (recipe.flag("data.joint")) {
    const train::Vocabulary joint = learn_vocabulary(recipe, source + target, file, specials);
    return {joint, joint};
  }
  return {learn_vocabulary(recipe, source, file, {specials.front()}),
          learn_vocabulary(recipe, target, file, specials)};
}

}  // namespace

template <class T>
std::unique_ptr<Task<T>> make_pair_task(const Recipe& recipe, const SplitTexts& texts,
                                        bool allow_leak, int threads) {
  train::TransformerOptions options = transformer_options(recipe, allow_leak);
  PairVocabulary vocabulary = learn_pair_vocabulary(recipe, texts);
  options.source_vocabulary = vocabulary.source.size();
  options.vocabulary = vocabulary.target.size();
  return std::make_unique<PairTask<T>>(recipe, texts, std::move(vocabulary), options, threads);
}

template std::unique_ptr<Task<float>> make_pair_task(const Recipe&, const SplitTexts&, bool, int);
template std::unique_ptr<Task<double>> make_pair_task(const Recipe&, const SplitTexts&, bool, int);

}  // namespace attn::tools
