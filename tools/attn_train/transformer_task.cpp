#include "attn_train/transformer_task.hpp"

#include <utility>

#include "attn_train/attention_input.hpp"
#include "attn_train/model_options.hpp"
#include "train/layer_column_sums.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;
using train::SlotBatch;

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
    if (layer.self()) groups.push_back(group_of(*layer.self(), place + ".self"));
    if (layer.cross()) groups.push_back(group_of(*layer.cross(), place + ".cross"));
  }
}

}  // namespace

template <class T>
TransformerTask<T>::TransformerTask(const Recipe& recipe, const train::TransformerOptions& options,
                                    int threads)
    : TokenTask<T, train::Transformer>(recipe, std::make_unique<train::Transformer>(options),
                                       threads) {}

template <class T>
std::vector<AttentionGroup> TransformerTask<T>::attentions() const {
  std::vector<AttentionGroup> groups;
  if (this->model().encoder()) add_stack(*this->model().encoder(), "encoder", groups);
  const bool causal = this->model().options().decoder.causal;
  add_stack(this->model().decoder(), causal ? "decoder" : "encoder", groups);
  return groups;
}

template <class T>
Json TransformerTask<T>::attention_figures(const T* weights) {
  const auto sums = train::layer_column_sums(
      this->model(), weights, this->of(Split::valid)->evaluation(0), this->threads());
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
  for (const SlotBatch& batch : this->of(Split::valid)->evaluation(0)) {
    train::Slot<T> slot;
    slot.weights = weights;
    slot.plans = &plans;
    train::Transformer::Passed<T> passed;
    this->model().forward(slot, batch, passed);
    std::size_t n = 0;
    for (const train::AttentionSite<T>& site : this->model().attention_sites(batch, passed)) {
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
  const auto [source_length, length] = this->longest();
  const Index sequences = sizes.largest_slot();
  return this->model().template bytes<T>({this->model().encoder() ? sequences : 0, source_length},
                                         {sequences, length});
}

template <class T>
std::int64_t TransformerTask<T>::figure_bytes(const BatchSizes& sizes, bool with_inputs) const {
  const train::SlotBytes slot = slot_bytes(sizes);
  const Index slots = std::min(sizes.most, train::most_slots);
  const std::int64_t of_plans = 2 * slot.plans * slot.plan.results;
  const std::int64_t of_figures =
      slots * slot.returned + std::min<Index>(this->threads(), slots) * (slot.predict + of_plans);
  if (!with_inputs) return of_figures;
  const auto [source_length, length] = this->longest();
  // x and y of each attention, and a copy of one while it is written.
  const Index arrays = 2 * std::ssize(attentions()) + 1;
  const std::int64_t of_inputs = train::row_bytes<T>(sizes.most * std::max(length, source_length),
                                                     this->model().options().layer.width);
  return std::max(of_figures, arrays * of_inputs + slot.predict + of_plans);
}

template <class T>
bool TransformerTask<T>::can_generate() const {
  const train::TransformerOptions& options = this->model().options();
  return options.decoder.generates() && options.cross.generates();
}

template <class T>
Index TransformerTask<T>::attentions_to_source() const {
  Index count = 0;
  for (const train::TransformerLayer& layer : this->model().decoder().layers()) {
    if (layer.cross()) count += layer.cross()->options().heads;
  }
  return count;
}

template <class T>
std::vector<std::vector<Index>> TransformerTask<T>::generate(
    const T* weights, const std::vector<std::vector<Index>>& sources,
    const train::OutputOptions& options) const {
  return train::decoder_outputs(this->model(), weights, sources, options, this->threads());
}

template <class T>
std::int64_t TransformerTask<T>::generation_bytes(Index source_length,
                                                  const train::OutputOptions& options) const {
  return train::decoder_output_bytes<T>(this->model(), source_length, options, this->threads());
}

template class TransformerTask<float>;
template class TransformerTask<double>;

}  // namespace attn::tools
