// lib/train: the order of two segments, beside masked tokens.

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "batch_checks.hpp"
#include "same_bits.hpp"
#include "thrown_error.hpp"
#include "train/batch_pass.hpp"
#include "train_problem.hpp"

using namespace attn;
using namespace attn::train;
using namespace attn::testing;

namespace {

constexpr Index mark = 1;
constexpr OrderTokens around = {2, 3};
constexpr Index first_word = 4;

// A text whose tokens are their positions, after the special ones.
MaskedBatches ordered_batches(Index tokens, Index length, Index batch) {
  return {counted_tokens(tokens, first_word), length, batch, {mark, 100000, 200000}, around};
}

// A sequence without its masks.
struct RestoredPair {
  std::vector<Index> a, b;  // as they stand in the text
  bool swapped = false;
  Index masked = 0;
};

std::vector<RestoredPair> restored_pairs(const AllBatches& all) {
  std::vector<RestoredPair> found;
  for (const auto& slots : all) {
    for (SlotBatch slot : slots) {
      std::map<Index, Index> masked;  // by sequence
      for (std::size_t n = 0; n < slot.targets.rows.size(); ++n) {
        const Index row = slot.targets.rows[n];
        const Index token = slot.targets.tokens[n];
        Index& input = slot.input.tokens[static_cast<std::size_t>(row)];
        CHECK((input == mark || input == token || (input >= 100000 && input < 200000)));
        CHECK(token >= first_word);
        input = token;
        ++masked[row / slot.input.sequences.length];
      }
      REQUIRE(std::ssize(slot.swapped) == slot.input.sequences.count);
      const auto sequences = checked_rows(slot.input);
      for (std::size_t n = 0; n < sequences.size(); ++n) {
        const std::vector<Index>& sequence = sequences[n];
        const auto half = (std::ssize(sequence) - 3) / 2;
        REQUIRE(std::ssize(sequence) == 2 * half + 3);
        CHECK(half >= 1);
        CHECK(sequence.front() == around.first);
        CHECK(sequence[static_cast<std::size_t>(1 + half)] == around.separator);
        CHECK(sequence.back() == around.separator);
        const auto first = sequence.begin() + 1;
        const auto second = first + half + 1;
        CHECK((slot.swapped[n] == 0 || slot.swapped[n] == 1));
        const bool swapped = slot.swapped[n] == 1;
        found.push_back({{swapped ? second : first, (swapped ? second : first) + half},
                         {swapped ? first : second, (swapped ? first : second) + half},
                         swapped,
                         masked[static_cast<Index>(n)]});
      }
    }
  }
  return found;
}

std::vector<SlotBatch> ordered_slots(const TransformerOptions& options) {
  std::vector<SlotBatch> slots = token_slots(options, {5, 1, 7, 3, 4, 6, 2, 5, 7, 3, 1}, false);
  Index number = 0;
  for (SlotBatch& slot : slots) {
    for (Index n = 0; n < slot.input.sequences.count; ++n) slot.swapped.push_back(number++ % 3 % 2);
  }
  return slots;
}

template <class T>
std::vector<T> started(const Transformer& model) {
  std::vector<T> weights(static_cast<std::size_t>(model.parameters().size()));
  model.parameters().initialise(3, weights.data());
  return weights;
}

}  // namespace

TEST_CASE("two segments stand between special tokens, and are the text") {
  for (const Index length : {5, 6, 7, 12, 33}) {
    for (const Index count : {2, 3, 4, 5, 17, 100, 101}) {
      for (const bool trained : {false, true}) {
        CAPTURE(length);
        CAPTURE(count);
        MaskedBatches batches = ordered_batches(count, length, 3);
        const auto pairs =
            restored_pairs(trained ? epoch_batches(batches, {5, 1}) : evaluation_batches(batches));
        CHECK(std::ssize(pairs) == batches.items());
        std::map<Index, Index> tokens;
        for (const RestoredPair& pair : pairs) {
          CHECK(2 * std::ssize(pair.a) <= length - 3);
          std::vector<Index> both = pair.a;
          both.insert(both.end(), pair.b.begin(), pair.b.end());
          CHECK(both == counted_tokens(std::ssize(both), both.front()));
          for (const Index token : both) CHECK(++tokens[token] == 1);
        }
        // All tokens, but for a last odd one.
        CHECK(std::ssize(tokens) == count - count % 2);
        CHECK(tokens.begin()->first == first_word);
        CHECK(tokens.rbegin()->first == first_word + std::ssize(tokens) - 1);
      }
    }
  }
}

TEST_CASE("half of the segments are swapped, and 15% of their tokens masked") {
  for (const Index length : {5, 12, 67}) {
    CAPTURE(length);
    MaskedBatches batches = ordered_batches(6000, length, 16);
    double pairs = 0;
    double early = 0;
    double swapped = 0;
    double swapped_early = 0;
    double tokens = 0;
    double masked = 0;
    double masked_if_swapped = 0;
    constexpr Index epochs = 30;
    for (Index epoch = 0; epoch < epochs; ++epoch) {
      for (const RestoredPair& pair : restored_pairs(epoch_batches(batches, {3, epoch}))) {
        const bool is_early = pair.a.front() < first_word + 3000;
        ++pairs;
        early += is_early ? 1 : 0;
        tokens += static_cast<double>(2 * pair.a.size());
        masked += static_cast<double>(pair.masked);
        if (!pair.swapped) continue;
        ++swapped;
        swapped_early += is_early ? 1 : 0;
        masked_if_swapped += static_cast<double>(pair.masked);
      }
    }
    check_share(swapped, pairs, 0.5);
    check_share(swapped_early, early, 0.5);
    // As without the order: the variance is at most twice the expected number.
    CHECK(std::abs(masked - 0.15 * tokens) <= 5 * std::sqrt(2 * 0.15 * tokens));
    // Swaps and masks have nothing to do with each other; a pair has at most 0.15·T + 6 masks.
    const double most = 0.15 * static_cast<double>(length) + 6;
    CHECK(std::abs(masked_if_swapped - masked / 2) <= 5 * most * std::sqrt(pairs) / 2);
  }
}

TEST_CASE("swaps are functions of seed, epoch and segment, whatever the batches") {
  const auto swaps = [](Index batch, const std::optional<Epoch>& epoch) {
    MaskedBatches batches = ordered_batches(995, 13, batch);
    // Evaluation is the same whatever was trained before.
    batches.training({static_cast<std::uint64_t>(batch), 2}, 0);
    std::map<Index, std::pair<bool, Index>> found;
    for (const RestoredPair& pair :
         restored_pairs(epoch ? epoch_batches(batches, *epoch) : evaluation_batches(batches))) {
      found[pair.a.front()] = {pair.swapped, pair.masked};
    }
    return found;
  };
  const auto first = swaps(7, Epoch{1, 0});
  CHECK(swaps(30, Epoch{1, 0}) == first);
  CHECK(swaps(7, Epoch{2, 0}) != first);
  CHECK(swaps(7, Epoch{1, 1}) != first);
  CHECK(swaps(7, Epoch{0, 0}) != swaps(7, std::nullopt));
  CHECK(swaps(7, std::nullopt) == swaps(30, std::nullopt));
}

TEST_CASE("texts, lengths and models without two segments are refused") {
  CHECK(thrown_error([] { ordered_batches(1, 9, 2); }).failure() == Failure::input);
  CHECK(thrown_error([] { ordered_batches(0, 9, 2); }).failure() == Failure::input);
  CHECK(thrown_error([] { ordered_batches(50, 4, 2); }).failure() == Failure::usage);
  TransformerOptions causal = small_stack(Scheme::unas, true);
  causal.order = true;
  CHECK(thrown_error([&] { const Transformer model(causal); }).failure() == Failure::usage);
  TransformerOptions pair = small_pair(Scheme::unas);
  pair.decoder.causal = false;
  pair.order = true;
  CHECK(thrown_error([&] { const Transformer model(pair); }).failure() == Failure::usage);
}

TEST_CASE("the loss of the order is the cross-entropy of two classes at the first positions") {
  TransformerOptions options = small_stack(Scheme::hnas, false);
  options.order = true;
  const Transformer model(options);
  const std::vector<double> weights = started<double>(model);
  const std::vector<SlotBatch> slots = ordered_slots(options);
  const std::vector<Parameter>& all = model.parameters().all();
  REQUIRE(all[all.size() - 2].name == "order/softmax");
  REQUIRE(all.back().name == "order/softmax_bias");
  const double* const w = weights.data() + all[all.size() - 2].offset;
  const double* const b = weights.data() + all.back().offset;
  Prediction want;
  for (const SlotBatch& batch : slots) {
    AttentionPlans<double> plans;
    Slot<double> slot;
    slot.weights = weights.data();
    slot.plans = &plans;
    Stack::Kept<double> kept;
    const auto last =
        model.decoder().forward(slot, batch.input.view(), batch.input.tokens.data(), {}, kept);
    for (Index n = 0; n < batch.input.sequences.count; ++n) {
      double z[2];
      for (Index k = 0; k < 2; ++k) {
        z[k] = b[k];
        for (Index c = 0; c < 6; ++c) {
          z[k] += w[6 * k + c] * last(n * batch.input.sequences.length, c);
        }
      }
      const Index swapped = batch.swapped[static_cast<std::size_t>(n)];
      want.order_loss += std::log(std::exp(z[0]) + std::exp(z[1])) - z[swapped];
      want.order_correct += z[swapped] > z[1 - swapped] ? 1 : 0;
      ++want.order_count;
    }
  }
  BatchPass<Transformer, double> pass(model, 1);
  const Prediction found = pass.predict(weights.data(), slots);
  CHECK(found.order_count == 11);
  CHECK(found.order_count == want.order_count);
  CHECK(found.order_correct == want.order_correct);
  // Rounding of eleven sums of six products of the order of 1.
  CHECK(found.order_loss == doctest::Approx(want.order_loss).epsilon(1e-14));
  const double mean = found.smoothed / static_cast<double>(found.count) + found.order_loss / 11;
  CHECK(found.objective() == doctest::Approx(mean).epsilon(1e-15));
  CHECK(Prediction{}.objective() == 0);
}

TEST_CASE_TEMPLATE("without the order nothing changes, and with it no bit depends on threads", T,
                   float, double) {
  TransformerOptions options = small_stack(Scheme::dnas, false);
  const Transformer plain(options);
  options.order = true;
  const Transformer ordered(options);
  const Index size = plain.parameters().size();
  CHECK(ordered.parameters().size() == size + 2 * 6 + 2);
  std::vector<SlotBatch> slots = ordered_slots(options);
  const std::vector<T> weights = started<T>(ordered);
  CHECK(same_bits(weights.data(), started<T>(plain).data(), size));
  std::vector<T> first;
  for (const int threads : {1, 2, 3, 8}) {
    BatchPass<Transformer, T> pass(ordered, threads);
    const auto found = pass.differentiate(weights.data(), slots, {0.1, 0.2}, 5, 1);
    const std::vector<T> gradients(found.gradients, found.gradients + weights.size());
    if (first.empty()) first = gradients;
    CHECK(same_nonempty_bits(gradients, first));
  }
  // A batch that asks for no order has the gradients and losses of the plain model.
  for (SlotBatch& slot : slots) slot.swapped.clear();
  BatchPass<Transformer, T> with(ordered, 1);
  BatchPass<Transformer, T> without(plain, 1);
  const auto found = with.differentiate(weights.data(), slots, {0.1, 0.2}, 5, 1);
  const auto want = without.differentiate(weights.data(), slots, {0.1, 0.2}, 5, 1);
  CHECK(same_bits(found.gradients, want.gradients, size));
  CHECK(found.prediction.loss == want.prediction.loss);
  CHECK(found.prediction.order_count == 0);
  for (Index n = size; n < std::ssize(weights); ++n) CHECK(found.gradients[n] == 0);
}
