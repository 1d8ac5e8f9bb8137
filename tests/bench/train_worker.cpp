// Times training steps of a small language model: forward, backward and a step of SGD, in float32.
//
//     attn-bench-train-worker SCHEME LAYERS WIDTH INNER SEQUENCES LENGTH VOCABULARY THREADS STEPS
//
// Causal self-attention with four heads, post-norm, on random tokens. Under si-sgd, attention is
// unas and W_Q and W_K step in paths. Prints the seconds of each step and the loss of the last one.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "train/batch_pass.hpp"
#include "train/path_start.hpp"
#include "train/transformer.hpp"
#include "train/weight_optimizer.hpp"

namespace {

using namespace attn;
using namespace attn::train;

std::vector<SlotBatch> random_batch(Index sequences, Index length, Index vocabulary) {
  std::mt19937_64 random(1);
  const auto token = [&] {
    return static_cast<Index>(random() % static_cast<std::uint64_t>(vocabulary));
  };
  std::vector<SlotBatch> slots;
  for (const SlotRange& range : slot_ranges(sequences)) {
    SlotBatch slot;
    slot.input.sequences = {range.count, length};
    for (Index row = 0; row < slot.input.sequences.rows(); ++row) {
      slot.input.tokens.push_back(token());
      slot.targets.rows.push_back(row);
      slot.targets.tokens.push_back(token());
    }
    slots.push_back(slot);
  }
  return slots;
}

// The layers of paths of all attentions.
std::vector<PathLayer> path_layers(const Transformer& model) {
  std::vector<PathLayer> layers;
  for (const TransformerLayer& layer : model.decoder().layers()) {
    const AttentionLayer& self = *layer.self();
    layers.push_back({self.group(), self.wq(), self.wk(), self.options().heads});
  }
  return layers;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 10) return 2;
  const std::string scheme = argv[1];
  const auto number = [&](int place) { return static_cast<Index>(std::atoll(argv[place])); };
  TransformerOptions options;
  options.decoder_layers = number(2);
  options.layer.width = number(3);
  options.layer.inner = number(4);
  options.layer.heads = 4;
  options.length = number(6);
  options.vocabulary = number(7);
  if (scheme == "dnas") options.decoder.scheme.scheme = Scheme::dnas;
  if (scheme == "hnas") options.decoder.scheme.scheme = Scheme::hnas;
  options.decoder.in_paths = scheme == "si-sgd";
  const int threads = static_cast<int>(number(8));
  const Transformer model(options);
  std::vector<float> weights(static_cast<std::size_t>(model.parameters().size()));
  model.parameters().initialise(1, weights.data());
  const auto slots = random_batch(number(5), number(6), number(7));
  BatchPass<Transformer, float> pass(model, threads);
  OptimizerOptions of;
  of.rule = Rule::sgd;
  std::vector<PathLayer> in_paths;
  if (options.decoder.in_paths) {
    in_paths = path_layers(model);
    set_skeletons_to_one(in_paths, weights.data());
  }
  WeightOptimizer<float> optimizer(model.parameters(), of, in_paths, threads);
  double loss = 0;
  for (Index step = 1; step <= number(9); ++step) {
    const auto begun = std::chrono::steady_clock::now();
    const auto found = pass.differentiate(weights.data(), slots, {}, 1, step);
    optimizer.step(step, 0.01, weights.data(), found.gradients);
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begun;
    loss = found.prediction.loss / static_cast<double>(found.prediction.count);
    std::printf("%.9f\n", spent.count());
  }
  std::printf("%.6f\n", loss);
  return 0;
}
