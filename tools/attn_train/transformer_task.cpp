#include "attn_train/transformer_task.hpp"

#include <utility>

#include "attn_train/attention_input.hpp"
#include "attn_train/model_options.hpp"
#include "train/layer_column_sums.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;
using train::SlotBatch;

// The positions of all sequences, padding left out.
double real_positions(const train::TokenRows& rows) {
  if (rows.lengths.empty()) return static_cast<double>(rows.sequences.rows());
  double sum = 0;
  for (const Index length : rows.lengths) sum += static_cast<double>(length);
  return sum;
}

AttentionGroup group_of(const train::AttentionLayer& layer, const std::string& place) {
  return {.name = layer.group(),
          .place = place,
          .heads = &layer.heads(),
          .projections = {layer.wq(), layer.wk(), layer.wv()},
          .joining = layer.wo()};
}

void add_stack(const train::Stack& stack, const std::string& place,
               std::vector<AttentionGroup>& groups) {
  for (const train::TransformerLayer& layer : stack.layers()) {
    groups.push_back(group_of(layer.self(), place + ".self"));
    if (layer.cross()) groups.push_back(group_of(*layer.cross(), place + ".cross"));
  }
}

}  // namespace

template <class T>
TransformerTask<T>::TransformerTask(const Recipe& recipe, const train::TransformerOptions& options,
                                    int threads)
    : model_(options),
      pass_(model_, threads),
      dropout_(dropout_of(recipe)),
      seed_(static_cast<std::uint64_t>(recipe.integer("seed"))),
      masked_(recipe.text("objective.kind") == "masked"),
      threads_(threads) {}

template <class T>
std::vector<AttentionGroup> TransformerTask<T>::attentions() const {
  std::vector<AttentionGroup> groups;
  if (model_.encoder()) add_stack(*model_.encoder(), "encoder", groups);
  add_stack(model_.decoder(), masked_ ? "encoder" : "decoder", groups);
  return groups;
}

template <class T>
Index TransformerTask<T>::batches() const {
  return of(Split::train)->batches();
}

template <class T>
StepFound<T> TransformerTask<T>::differentiate(const T* weights, const StepNumber& number) {
  const std::vector<SlotBatch> slots = of(Split::train)->training(number.epoch, number.batch);
  const auto found = pass_.differentiate(weights, slots, dropout_, seed_, number.step);
  StepFound<T> step;
  step.targets = static_cast<double>(found.prediction.count);
  step.loss = found.prediction.objective() * step.targets;
  step.gradients = found.gradients;
  for (const SlotBatch& slot : slots) {
    step.tokens += real_positions(slot.input) + real_positions(slot.source);
  }
  return step;
}

template <class T>
std::optional<Json> TransformerTask<T>::evaluate(const T* weights, Split split, bool outputs) {
  const train::Batches* const batches = of(split);
  if (batches == nullptr) return std::nullopt;
  train::Prediction sums;
  for (Index n = 0; n < batches->batches(); ++n) {
    sums.add(pass_.predict(weights, batches->evaluation(n)));
  }
  Json found = metrics(sums);
  if (outputs) add_output_metrics(weights, split, found);
  return found;
}

template <class T>
Json TransformerTask<T>::attention_figures(const T* weights) {
  const auto sums =
      train::layer_column_sums(model_, weights, of(Split::valid)->evaluation(0), threads_);
  Json figures = Json::array();
  std::size_t n = 0;
  for (const AttentionGroup& group : attentions()) {
    Json one;
    one["group"] = group.name;
    const std::vector<double> shares = group.heads->shares(weights);
    if (!shares.empty()) one["u"] = shares;
    one["least_column_sum"] = sums[n].least;
    one["explained_away"] = sums[n].explained_away_share();
    figures.push_back(one);
    ++n;
  }
  return figures;
}

template <class T>
void TransformerTask<T>::write_inputs(const T* weights, io::OutputBundle& bundle) {
  const std::vector<AttentionGroup> groups = attentions();
  std::vector<AttentionInput<T>> inputs(groups.size());
  train::AttentionPlans<T> plans;
  for (const SlotBatch& batch : of(Split::valid)->evaluation(0)) {
    train::Slot<T> slot;
    slot.weights = weights;
    slot.plans = &plans;
    train::Transformer::Passed<T> passed;
    model_.forward(slot, batch, passed);
    std::size_t n = 0;
    for (const train::AttentionSite<T>& site : model_.attention_sites(batch, passed)) {
      inputs[n++].add(site);
    }
  }
  for (std::size_t n = 0; n < groups.size(); ++n) {
    io::OutputBundle group = bundle.group(groups[n].name);
    inputs[n].write(group);
  }
}

template <class T>
train::SlotBytes TransformerTask<T>::slot_bytes(const BatchSizes& sizes) const {
  const auto [source_length, length] = longest();
  const Index sequences = sizes.largest_slot();
  return model_.template bytes<T>({model_.encoder() ? sequences : 0, source_length},
                                  {sequences, length});
}

template <class T>
std::int64_t TransformerTask<T>::working_bytes(bool with_inputs) const {
  const BatchSizes sizes = batch_sizes(batches_);
  const train::SlotBytes slot = slot_bytes(sizes);
  // The last sequence of each split may be shorter, in training in a slot of any size.
  train::SlotShapes shapes = sizes.shapes();
  shapes.trained *= 2;
  shapes.evaluated += 2;
  if (has_many_lengths()) shapes.trained = train::most_plans;
  const Index slots = std::min(sizes.most, train::most_slots);
  const std::int64_t of_plans = 2 * slot.plans * slot.plan.results;
  const std::int64_t of_figures =
      slots * slot.returned + std::min<Index>(threads_, slots) * (slot.predict + of_plans);
  std::int64_t besides = std::max(of_figures, output_bytes());
  if (with_inputs) {
    const auto [source_length, length] = longest();
    // x and y of each attention, and one of them as it is written.
    const Index arrays = 2 * std::ssize(attentions()) + 1;
    const std::int64_t of_inputs = train::row_bytes<T>(sizes.most * std::max(length, source_length),
                                                       model_.options().layer.width);
    besides = std::max(besides, arrays * of_inputs + slot.predict + of_plans);
  }
  return pass_.bytes(slot, sizes.most, shapes) + besides;
}

template <class T>
void TransformerTask<T>::reserve() {
  const BatchSizes sizes = batch_sizes(batches_);
  pass_.reserve(slot_bytes(sizes), sizes.most);
}

template <class T>
std::int64_t TransformerTask<T>::output_bytes() const {
  return 0;
}

template <class T>
void TransformerTask<T>::add_output_metrics(const T*, Split, Json&) {}

template <class T>
void TransformerTask<T>::set_batches(Split split, std::unique_ptr<train::Batches> batches) {
  batches_[static_cast<std::size_t>(split)] = std::move(batches);
}

Json common_metrics(const train::Prediction& found) {
  const auto count = static_cast<double>(found.count);
  Json metrics;
  metrics["loss"] = found.loss / count;
  metrics["accuracy"] = static_cast<double>(found.correct) / count;
  return metrics;
}

void write_symbols(const train::Vocabulary& vocabulary, const std::string& name,
                   io::OutputBundle& bundle) {
  bundle.write_strings(name, vocabulary.symbols(), {"token"});
  if (vocabulary.merges().empty()) return;
  std::vector<std::int64_t> pairs;
  for (const train::Merge& merge : vocabulary.merges()) {
    pairs.push_back(merge.left);
    pairs.push_back(merge.right);
  }
  const Shape shape = {static_cast<Index>(vocabulary.merges().size()), 2};
  bundle.create(name + "_merges", DType::i64, shape, {"merge", "left, right"})
      .write({0, 0}, shape, pairs.data());
}

template class TransformerTask<float>;
template class TransformerTask<double>;

}  // namespace attn::tools
