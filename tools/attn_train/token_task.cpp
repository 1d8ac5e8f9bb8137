#include "attn_train/token_task.hpp"

#include <algorithm>
#include <utility>

#include "attn_train/model_options.hpp"
#include "train/mechanism_model.hpp"

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

}  // namespace

template <class T, class Model>
TokenTask<T, Model>::TokenTask(const Recipe& recipe, std::unique_ptr<const Model> model,
                               int threads)
    : model_(std::move(model)),
      pass_(*model_, threads),
      longest_(recipe.integer("data.source-length"), recipe.integer("data.length")),
      dropout_(dropout_of(recipe)),
      seed_(static_cast<std::uint64_t>(recipe.integer("seed"))),
      threads_(threads) {}

template <class T, class Model>
Index TokenTask<T, Model>::batches() const {
  return of(Split::train)->batches();
}

template <class T, class Model>
StepFound<T> TokenTask<T, Model>::differentiate(const T* weights, const StepNumber& number) {
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

template <class T, class Model>
std::optional<Json> TokenTask<T, Model>::evaluate(const T* weights, Split split, bool outputs) {
  const train::Batches* const batches = of(split);
  if (batches == nullptr) return std::nullopt;
  typename Model::Sums sums;
  for (Index n = 0; n < batches->batches(); ++n) {
    sums.add(pass_.predict(weights, batches->evaluation(n)));
  }
  Json found = metrics(sums);
  add_model_metrics(sums, found);
  if (outputs) add_output_metrics(weights, split, found);
  return found;
}

template <class T, class Model>
std::int64_t TokenTask<T, Model>::working_bytes(bool with_inputs) const {
  const BatchSizes sizes = batch_sizes(batches_);
  // The last sequence of each split may be shorter; in training, it may be in a slot of any size.
  train::SlotShapes shapes = sizes.shapes();
  shapes.trained *= 2;
  for (const Split split : {Split::valid, Split::test}) {
    if (batches_[static_cast<std::size_t>(split)]) ++shapes.evaluated;
  }
  if (has_many_lengths()) shapes.trained = train::most_plans;
  return pass_.bytes(slot_bytes(sizes), sizes.most, shapes) +
         std::max({figure_bytes(sizes, with_inputs), output_bytes(), source_weight_bytes(sizes)});
}

// A pass over one slot, the weights of its pairs, and those of one pair as they are written.
template <class T, class Model>
std::int64_t TokenTask<T, Model>::source_weight_bytes(const BatchSizes& sizes) const {
  if (source_weights() == 0) return 0;
  const train::SlotBytes slot = slot_bytes(sizes);
  const auto [source_length, length] = longest();
  return slot.predict + slot.returned + train::most_plans * slot.plan.results +
         (sizes.largest_slot() + 1) * source_weights() * train::row_bytes<T>(length, source_length);
}

template <class T, class Model>
void TokenTask<T, Model>::reserve() {
  const BatchSizes sizes = batch_sizes(batches_);
  pass_.reserve(slot_bytes(sizes), sizes.most);
}

template <class T, class Model>
void TokenTask<T, Model>::add_model_metrics(const typename Model::Sums&, Json&) const {}

template <class T, class Model>
void TokenTask<T, Model>::add_output_metrics(const T*, Split, Json&) {}

template <class T, class Model>
void TokenTask<T, Model>::set_batches(Split split, std::unique_ptr<train::Batches> batches) {
  batches_[static_cast<std::size_t>(split)] = std::move(batches);
}

template <class T, class Model>
DataSizes TokenTask<T, Model>::sizes_of(std::vector<Index> vocabularies, Index outcomes) const {
  DataSizes sizes{.vocabularies = std::move(vocabularies), .outcomes = outcomes};
  for (std::size_t n = 0; n < batches_.size(); ++n) {
    if (batches_[n]) sizes.items[n] = batches_[n]->items();
  }
  return sizes;
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

template class TokenTask<float, train::Transformer>;
template class TokenTask<double, train::Transformer>;
template class TokenTask<float, train::MechanismModel>;
template class TokenTask<double, train::MechanismModel>;

}  // namespace attn::tools
