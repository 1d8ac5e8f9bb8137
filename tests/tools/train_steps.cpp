// Trains a small model for 20 steps and prints, as JSON, its parameters at the start, the batches,
// the loss before every step and the parameters at the end, so that another program can do the
// same. Usage:
//
//     train-steps lm|masked|pairs unas|dnas|hnas|sinkhorn|none sgd|adam|lamb post|pre relu|gelu
//     f32|f64
//
// Words: the objective, the scheme (of the encoder in pairs), the rule, the order of norms, the
// activation, the type. Batches are padded, in three slots.

#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "train/batch_pass.hpp"
#include "train/transformer.hpp"
#include "train/weight_optimizer.hpp"

namespace {

using namespace attn;
using namespace attn::train;
using Json = nlohmann::ordered_json;

constexpr Index steps = 20;
constexpr Index vocabulary = 11;
constexpr Index source_vocabulary = 8;
constexpr Index longest = 9;

template <class Value>
Value chosen(const std::map<std::string, Value>& values, const std::string& word) {
  return values.at(word);
}

// What the words of the command line choose.
struct Run {
  std::string objective;
  TransformerOptions model;
  OptimizerOptions optimizer;
  double rate = 0;

  explicit Run(char** words) : objective(words[1]) {
    const Scheme scheme = chosen<Scheme>({{"unas", Scheme::unas},
                                          {"dnas", Scheme::dnas},
                                          {"hnas", Scheme::hnas},
                                          {"sinkhorn", Scheme::sinkhorn},
                                          {"none", Scheme::unas},
                                          {"fenchel", Scheme::fenchel},
                                          {"transport", Scheme::transport}},
                                         words[2]);
    optimizer.rule =
        chosen<Rule>({{"sgd", Rule::sgd}, {"adam", Rule::adam}, {"lamb", Rule::lamb}}, words[3]);
    rate = optimizer.rule == Rule::sgd ? 0.1 : 1e-3;
    optimizer.decay = 0.01;
    optimizer.clip = 1;
    if (optimizer.rule == Rule::sgd) optimizer.momentum = 0.9;
    if (optimizer.rule == Rule::lamb) optimizer.epsilon = 1e-6;
    model.layer.width = 12;
    model.layer.heads = 3;
    model.layer.inner = 10;
    model.layer.deviation = 0.3;
    model.layer.out_deviation = 0.2;
    model.layer.order = words[4] == std::string("pre") ? NormOrder::pre : NormOrder::post;
    model.layer.activation = words[5] == std::string("gelu") ? Activation::gelu : Activation::relu;
    model.decoder_layers = 2;
    model.vocabulary = vocabulary;
    model.length = longest;
    LayerAttention attention = {{scheme, true, 3}, false, 0.3, false};
    attention.left_out = words[2] == std::string("none");
    attention.scheme.gamma = 0.7;
    attention.scheme.reach = 2;
    if (objective == "pairs") {
      model.encoder_layers = 2;
      model.source_vocabulary = source_vocabulary;
      model.source_length = longest;
      model.encoder = attention;
      model.smoothing = 0.1;
      model.positions = Positions::sinusoidal;
    } else {
      attention.causal = objective == "lm";
      model.decoder = attention;
      model.tied = objective == "masked";
    }
  }
};

TokenRows random_rows(std::mt19937_64& random, Index count, Index tokens) {
  TokenRows rows;
  rows.sequences = {count, longest};
  for (Index n = 0; n < count; ++n) {
    rows.lengths.push_back(1 + static_cast<Index>(random() % longest));
    for (Index i = 0; i < longest; ++i) {
      const auto token = static_cast<Index>(random() % static_cast<std::uint64_t>(tokens));
      rows.tokens.push_back(i < rows.lengths.back() ? token : padding_token);
    }
  }
  return rows;
}

std::vector<SlotBatch> random_slots(const Run& run, std::mt19937_64& random) {
  std::vector<SlotBatch> slots;
  for (const Index count : {2, 1, 2}) {
    SlotBatch slot;
    if (run.objective == "pairs") slot.source = random_rows(random, count, source_vocabulary);
    slot.input = random_rows(random, count, vocabulary);
    for (Index r = 0; r < slot.input.sequences.rows(); ++r) {
      const bool padding = slot.input.tokens[static_cast<std::size_t>(r)] == padding_token;
      if (padding || (run.objective == "masked" && r % 3 == 0)) continue;
      slot.targets.rows.push_back(r);
      slot.targets.tokens.push_back(static_cast<Index>(random() % vocabulary));
    }
    slots.push_back(slot);
  }
  return slots;
}

Json json_of(const TokenRows& rows) {
  return {{"length", rows.sequences.length}, {"tokens", rows.tokens}, {"lengths", rows.lengths}};
}

template <class T>
Json json_of(const Parameters& parameters, const std::vector<T>& weights) {
  Json json;
  for (const Parameter& one : parameters.all()) {
    const auto first = weights.begin() + one.offset;
    json[one.name] = {{"shape", one.shape},
                      {"decays", one.decays},
                      {"values", std::vector<double>(first, first + one.size())}};
  }
  return json;
}

template <class T>
void print_run(const Run& run) {
  const Transformer model(run.model);
  const Parameters& parameters = model.parameters();
  std::vector<T> weights(static_cast<std::size_t>(parameters.size()));
  parameters.initialise(1, weights.data());
  Json json;
  json["start"] = json_of(parameters, weights);
  BatchPass<Transformer, T> pass(model, 2);
  WeightOptimizer<T> optimizer(parameters, run.optimizer, {}, 2);
  std::mt19937_64 random(2);
  for (Index number = 1; number <= steps; ++number) {
    const std::vector<SlotBatch> slots = random_slots(run, random);
    Json batch = Json::array();
    for (const SlotBatch& slot : slots) {
      batch.push_back({{"source", json_of(slot.source)},
                       {"input", json_of(slot.input)},
                       {"rows", slot.targets.rows},
                       {"targets", slot.targets.tokens}});
    }
    json["batches"].push_back(std::move(batch));
    const auto found = pass.differentiate(weights.data(), slots, {}, 1, number);
    json["losses"].push_back(found.prediction.smoothed /
                             static_cast<double>(found.prediction.count));
    optimizer.step(number, run.rate, weights.data(), found.gradients);
  }
  json["end"] = json_of(parameters, weights);
  std::puts(json.dump().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  const Run run(argv);
  if (argv[6] == std::string("f64")) {
    print_run<double>(run);
  } else {
    print_run<float>(run);
  }
  return 0;
}
