#include "attn_train/mechanism_model_task.hpp"

#include <algorithm>
#include <utility>

#include "train/alignment_model.hpp"
#include "train/coattention_model.hpp"
#include "train/decomposable_model.hpp"
#include "train/greedy_outputs.hpp"
#include "train/hard_model.hpp"
#include "train/intra_attention_model.hpp"
#include "train/over_attention_model.hpp"
#include "train/structured_model.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

train::MechanismOptions mechanism_options(const Recipe& recipe, const MechanismSizes& sizes) {
  train::MechanismOptions options;
  options.source_vocabulary = sizes.source_vocabulary;
  options.vocabulary = sizes.vocabulary;
  options.joint = sizes.joint;
  options.classes = sizes.classes;
  options.width = recipe.integer("model.width");
  options.inner = recipe.integer("model.inner");
  options.cell =
      recipe.text("model.cell") == "gru" ? train::RecurrentCell::gru : train::RecurrentCell::lstm;
  options.smoothing = recipe.number("objective.smoothing");
  if (recipe.text("model.start") == "normal") options.deviation = recipe.number("model.deviation");
  return options;
}

train::HardGradient hard_gradient(const std::string& word) {
  return word == "sampled"            ? train::HardGradient::sampled
         : word == "sampled-baseline" ? train::HardGradient::sampled_baseline
                                      : train::HardGradient::enumeration;
}

train::AlignmentModelOptions alignment_options(const Recipe& recipe,
                                               const train::MechanismOptions& model) {
  const std::vector<std::string> terms = recipe.words("alignment.terms");
  const auto has = [&](const char* term) {
    return std::count(terms.begin(), terms.end(), term) > 0;
  };
  return {model,
          {has("position"), has("previous") ? recipe.integer("alignment.reach") : 0},
          recipe.number("alignment.agreement")};
}

}  // namespace

std::unique_ptr<const train::MechanismModel> make_mechanism_model(const Recipe& recipe,
                                                                  const MechanismSizes& sizes) {
  const train::MechanismOptions options = mechanism_options(recipe, sizes);
  const std::string kind = recipe.text("model.kind");
  if (kind == "structured-attention") {
    return std::make_unique<train::StructuredModel>(train::StructuredModelOptions{
        options, recipe.integer("structured.hops"), recipe.number("structured.penalty")});
  }
  if (kind == "alignment-attention") {
    return std::make_unique<train::AlignmentModel>(alignment_options(recipe, options));
  }
  if (kind == "coattention") {
    return std::make_unique<train::CoattentionModel>(train::CoattentionModelOptions{
        options,
        {.iterations = recipe.integer("coattention.iterations"),
         .end_after_start = recipe.text("coattention.end") == "after-start"},
        recipe.integer("coattention.pieces")});
  }
  if (kind == "hard-attention") {
    return std::make_unique<train::HardModel>(
        train::HardModelOptions{options, hard_gradient(recipe.text("hard.gradient"))});
  }
  if (kind == "decomposable-attention") return std::make_unique<train::DecomposableModel>(options);
  if (kind == "attention-over-attention") {
    return std::make_unique<train::OverAttentionModel>(options);
  }
  return std::make_unique<train::IntraAttentionModel>(options);
}

template <class T>
MechanismModelTask<T>::MechanismModelTask(const Recipe& recipe,
                                          std::unique_ptr<const train::MechanismModel> model,
                                          int threads)
    : TokenTask<T, train::MechanismModel>(recipe, std::move(model), threads) {}

template <class T>
void MechanismModelTask<T>::add_model_metrics(const train::MechanismPrediction& found,
                                              Json& metrics) const {
  for (const auto& [name, figure] : found.figures) metrics[name] = figure.mean();
}

template <class T>
void MechanismModelTask<T>::finish_step(const StepFound<T>& found, T* weights) const {
  const std::optional<Index> place = this->model().baseline();
  if (!place || found.targets == 0) return;
  T& b = weights[*place];
  b = static_cast<T>(train::next_baseline(static_cast<double>(b), -found.loss / found.targets));
}

template <class T>
train::SlotBytes MechanismModelTask<T>::slot_bytes(const BatchSizes& sizes) const {
  const auto [source_length, length] = this->longest();
  const Index sequences = sizes.largest_slot();
  return this->model().template bytes<T>(
      {this->model().has_sources() ? sequences : 0, source_length}, {sequences, length});
}

template <class T>
std::vector<std::vector<Index>> MechanismModelTask<T>::generate(
    const T* weights, const std::vector<std::vector<Index>>& sources,
    const train::OutputOptions& options) const {
  return train::greedy_outputs(this->model(), weights, sources, options, this->threads());
}

template <class T>
std::int64_t MechanismModelTask<T>::generation_bytes(Index source_length,
                                                     const train::OutputOptions& options) const {
  return this->threads() *
         this->model().template bytes<T>({1, source_length}, {1, options.length}).predict;
}

template class MechanismModelTask<float>;
template class MechanismModelTask<double>;

}  // namespace attn::tools
