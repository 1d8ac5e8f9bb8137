#pragma once

// Small models and batches for the tests of lib/train.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "long_run.hpp"
#include "sanitized.hpp"
#include "train/batch_pass.hpp"
#include "train/transformer.hpp"

namespace attn::testing {

inline train::LayerOptions small_layer() {
  train::LayerOptions layer;
  layer.width = 6;
  layer.heads = 2;
  layer.inner = 5;
  // Large enough that attention is far from uniform.
  layer.deviation = 0.7;
  layer.out_deviation = 0.5;
  return layer;
}

inline train::TransformerOptions small_stack(Scheme scheme, bool causal) {
  train::TransformerOptions options;
  options.decoder_layers = 2;
  options.vocabulary = 9;
  options.length = 8;
  options.layer = small_layer();
  options.decoder = {{scheme, false, 3}, causal, 0.3, false};
  options.decoder.scheme.gamma = 0.6;
  options.decoder.scheme.reach = 1.5;
  return options;
}

inline train::TransformerOptions small_pair(Scheme encoder) {
  train::TransformerOptions options = small_stack(Scheme::unas, true);
  options.encoder_layers = 2;
  options.source_vocabulary = 7;
  options.source_length = 9;
  options.encoder = {{encoder, true, 3}, false, 0.6, false};
  return options;
}

/// One sequence a slot, or for more than eight as many as slot_ranges says. Targets are two of
/// three positions; `whole` batches have no lengths and one length.
inline std::vector<train::SlotBatch> token_slots(const train::TransformerOptions& options,
                                                 const std::vector<Index>& lengths, bool whole) {
  std::mt19937_64 random(17);
  const auto fill = [&](train::TokenRows& rows, Index count, Index first, Index extra,
                        Index vocabulary) {
    Index longest = 0;
    for (Index n = 0; n < count; ++n) {
      longest = std::max(longest, lengths[static_cast<std::size_t>(first + n)] + extra);
    }
    rows.sequences = {count, longest};
    for (Index n = 0; n < count; ++n) {
      const Index length = whole ? longest : lengths[static_cast<std::size_t>(first + n)] + extra;
      if (!whole) rows.lengths.push_back(length);
      for (Index i = 0; i < longest; ++i) {
        const auto token = static_cast<Index>(random() % static_cast<std::uint64_t>(vocabulary));
        rows.tokens.push_back(i < length ? token : train::padding_token);
      }
    }
  };
  std::vector<train::SlotBatch> slots;
  for (const train::SlotRange& range : train::slot_ranges(static_cast<Index>(lengths.size()))) {
    train::SlotBatch slot;
    if (options.encoder_layers > 0) {
      fill(slot.source, range.count, range.first, 1, options.source_vocabulary);
    }
    fill(slot.input, range.count, range.first, 0, options.vocabulary);
    for (Index r = 0; r < slot.input.sequences.rows(); ++r) {
      if (slot.input.tokens[static_cast<std::size_t>(r)] == train::padding_token || r % 3 == 1)
        continue;
      slot.targets.rows.push_back(r);
      slot.targets.tokens.push_back(
          static_cast<Index>(random() % static_cast<std::uint64_t>(options.vocabulary)));
    }
    slots.push_back(slot);
  }
  return slots;
}

/// Slots of one sequence each, without a source, as one slot that is padded to `length`.
inline train::SlotBatch merged(const std::vector<train::SlotBatch>& slots, Index length) {
  train::SlotBatch all;
  all.input.sequences = {static_cast<Index>(slots.size()), length};
  for (const train::SlotBatch& slot : slots) {
    const Index first = static_cast<Index>(all.input.tokens.size());
    for (std::size_t n = 0; n < slot.targets.rows.size(); ++n) {
      all.targets.rows.push_back(first + slot.targets.rows[n]);
      all.targets.tokens.push_back(slot.targets.tokens[n]);
    }
    all.input.lengths.push_back(slot.input.sequences.length);
    all.input.tokens.insert(all.input.tokens.end(), slot.input.tokens.begin(),
                            slot.input.tokens.end());
    all.input.tokens.resize(static_cast<std::size_t>(first + length), train::padding_token);
  }
  return all;
}

/// The truncation of a central difference with h = 1e-5 is of the order of h², and its rounding of
/// 1e-16 / h = 1e-11; a loss of ten layers of exponentials multiplies both.
inline constexpr double difference_error = 1e-6;

/// The largest |∂L/∂w − difference| over some weights of each tensor, relative to the largest
/// gradient of the tensor and at least 1e-3 of the loss' own scale.
template <class Model>
double largest_gradient_error(const Model& model, const std::vector<typename Model::Batch>& slots,
                              double dropout) {
  const Index size = model.parameters().size();
  std::vector<double> weights(static_cast<std::size_t>(size));
  model.parameters().initialise(3, weights.data());
  train::BatchPass<Model, double> pass(model, 1);
  const auto loss = [&] {
    return pass.differentiate(weights.data(), slots, {dropout, dropout}, 5, 1)
        .prediction.objective();
  };
  const double* const found =
      pass.differentiate(weights.data(), slots, {dropout, dropout}, 5, 1).gradients;
  const std::vector<double> gradients(found, found + size);
  double worst = 0;
  for (const train::Parameter& one : model.parameters().all()) {
    double largest = 1e-3;
    for (Index n = 0; n < one.size(); ++n) {
      largest = std::max(largest, std::abs(gradients[static_cast<std::size_t>(one.offset + n)]));
    }
    // One of each under sanitizers, which check memory accesses, not rounding.
    const Index step = sanitized ? one.size() : (long_run() ? 1 : 2) * (1 + one.size() / 4);
    for (Index n = 0; n < one.size(); n += step) {
      const auto at = static_cast<std::size_t>(one.offset + n);
      const double kept = weights[at];
      const double h = 1e-5;
      weights[at] = kept + h;
      const double above = loss();
      weights[at] = kept - h;
      const double below = loss();
      weights[at] = kept;
      const double error = std::abs((above - below) / (2 * h) - gradients[at]) / largest;
      if (!(error <= 1e-6)) MESSAGE(one.name << " " << n << ": " << error);
      if (!(error <= worst)) worst = error;
    }
  }
  return worst;
}

}  // namespace attn::testing
