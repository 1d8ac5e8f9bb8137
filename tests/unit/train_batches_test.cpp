// lib/train: batches of language models and of pairs.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <vector>

#include "attnkit/error.hpp"
#include "batch_checks.hpp"
#include "train/batch_pass.hpp"
#include "train/pair_batches.hpp"

using namespace attn;
using namespace attn::train;
using namespace attn::testing;

namespace {

void check_ranges(const std::vector<SlotBatch>& slots, Index sequences) {
  const std::vector<SlotRange> ranges = slot_ranges(sequences);
  REQUIRE(slots.size() == ranges.size());
  for (std::size_t n = 0; n < slots.size(); ++n) {
    CHECK(slots[n].input.sequences.count == ranges[n].count);
  }
}

template <class Call>
bool is_input_error(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.failure() == Failure::input;
  }
  return false;
}

// What the masks of some batches were: by the length of a span and its first position, and by what
// stands in place of a token.
struct MaskCounts {
  std::map<Index, std::map<Index, double>> spans;
  double masked = 0, marked = 0, kept = 0, other = 0;

  void add(const SlotBatch& slot, Index mask) {
    const Index length = slot.input.sequences.length;
    const std::vector<Index>& rows = slot.targets.rows;
    for (std::size_t n = 0; n < rows.size();) {
      const std::size_t first = n;
      do {
        const Index token = slot.input.tokens[static_cast<std::size_t>(rows[n])];
        ++(token == mask ? marked : token == slot.targets.tokens[n] ? kept : other);
        ++n;
      } while (n < rows.size() && rows[n] == rows[n - 1] + 1 && rows[n] % length != 0);
      masked += static_cast<double>(n - first);
      ++spans[static_cast<Index>(n - first)][rows[first] % length];
    }
  }

  double spans_of(Index length) {
    double sum = 0;
    for (const auto& [position, count] : spans[length]) sum += count;
    return sum;
  }
};

}  // namespace

TEST_CASE("the order of an epoch is a permutation of its own") {
  for (const Index count : {1, 2, 3, 1000}) {
    std::vector<Index> order = epoch_order(count, {7, 3});
    CHECK(epoch_order(count, {7, 3}) == order);
    if (count == 1000) {
      CHECK(epoch_order(count, {7, 4}) != order);
      CHECK(epoch_order(count, {8, 3}) != order);
    }
    std::sort(order.begin(), order.end());
    CHECK(order == counted_tokens(count));
  }
  std::map<std::vector<Index>, double> found;
  for (Index n = 0; n < 6000; ++n) ++found[epoch_order(3, {1, n})];
  CHECK(found.size() == 6);
  for (const auto& [order, times] : found) check_share(times, 6000, 1.0 / 6);
}

TEST_CASE("every token but the first is a target once in an epoch") {
  for (const Index count : {2, 3, 40, 41, 42, 77}) {
    for (const Index length : {1, 4, 8, 100}) {
      for (const Index batch : {1, 3, 11}) {
        CAPTURE(count);
        CAPTURE(length);
        CAPTURE(batch);
        // Tokens that are not their own positions.
        CausalBatches batches(counted_tokens(count, 5), length, batch);
        CHECK(batches.items() == (count - 2) / length + 1);
        for (const bool trained : {true, false}) {
          const AllBatches all =
              trained ? epoch_batches(batches, {2, 1}) : evaluation_batches(batches);
          std::vector<Index> targets;
          Index left = batches.items();
          for (const auto& slots : all) {
            check_ranges(slots, std::min(left, batch));
            left -= batch;
            for (const SlotBatch& slot : slots) {
              std::vector<Index> inputs;
              for (const auto& sequence : checked_rows(slot.input)) {
                CHECK((sequence.front() - 5) % length == 0);
                CHECK(std::ssize(sequence) <= length);
                inputs.insert(inputs.end(), sequence.begin(), sequence.end());
              }
              REQUIRE(inputs.size() == slot.targets.rows.size());
              for (std::size_t n = 0; n < inputs.size(); ++n) {
                const auto row = static_cast<std::size_t>(slot.targets.rows[n]);
                CHECK(slot.input.tokens[row] == inputs[n]);
                CHECK(slot.targets.tokens[n] == inputs[n] + 1);
                targets.push_back(slot.targets.tokens[n]);
              }
            }
          }
          if (trained) std::sort(targets.begin(), targets.end());
          CHECK(targets == counted_tokens(count - 1, 6));
        }
      }
    }
  }
  CHECK(is_input_error([] { CausalBatches({4}, 3, 2); }));
  CHECK(is_input_error([] { CausalBatches({}, 1, 2); }));
}

TEST_CASE("batches are functions of seed, epoch and number") {
  CausalBatches causal(counted_tokens(400), 4, 6);
  MaskedBatches masked(counted_tokens(400), 20, 6, {400, 0, 400});
  std::vector<TokenPair> pairs;
  for (Index n = 0; n < 50; ++n) pairs.push_back({{n}, counted_tokens(n % 7, n)});
  PairBatches paired(pairs, {100, 101, 10, 10, 6});
  for (Batches* const batches : {static_cast<Batches*>(&causal), static_cast<Batches*>(&masked),
                                 static_cast<Batches*>(&paired)}) {
    const std::vector<Index> first = numbers_of(epoch_batches(*batches, {1, 0}));
    CHECK(numbers_of(epoch_batches(*batches, {1, 1})) != first);
    CHECK(numbers_of(epoch_batches(*batches, {2, 0})) != first);
    CHECK(numbers_of(epoch_batches(*batches, {1, 0})) == first);
    // A batch alone, as after a checkpoint.
    const std::vector<Index> third = numbers_of({batches->training({9, 9}, 2)});
    batches->training({9, 8}, 0);
    CHECK(numbers_of({batches->training({9, 9}, 2)}) == third);
    CHECK(numbers_of(evaluation_batches(*batches)) == numbers_of(evaluation_batches(*batches)));
  }
}

TEST_CASE("masked tokens: their share, their spans and what replaces them") {
  constexpr Index mask = 1;
  constexpr Index first = 2;
  constexpr Index vocabulary = 100002;  // a random token is rarely the token itself
  const std::vector<Index> tokens = counted_tokens(6001, first + 50);
  for (const Index length : {1, 2, 3, 5, 11, 12, 64}) {
    CAPTURE(length);
    MaskedBatches batches(tokens, length, 16, {mask, first, vocabulary});
    MaskCounts counts;
    constexpr Index epochs = 30;
    for (Index epoch = 0; epoch < epochs; ++epoch) {
      for (const auto& slots : epoch_batches(batches, {3, epoch})) {
        for (const SlotBatch& slot : slots) counts.add(slot, mask);
      }
    }
    // The variance of the sum of spans is at most that of a Poisson number of them, and the mean of
    // n² is twice that of n.
    const double expected = 0.15 * epochs * 6001;
    CHECK(std::abs(counts.masked - expected) <= 5 * std::sqrt(2 * expected));
    check_share(counts.marked, counts.masked, 0.8);
    check_share(counts.kept, counts.masked, 0.1);
    check_share(counts.other, counts.masked, 0.1);
    const double spans = counts.spans_of(1) + counts.spans_of(2) + counts.spans_of(3);
    CHECK(std::ssize(counts.spans) == 3);
    if (length < 3) continue;
    check_share(counts.spans_of(1), spans, 6.0 / 11);
    check_share(counts.spans_of(2), spans, 3.0 / 11);
    check_share(counts.spans_of(3), spans, 2.0 / 11);
    if (length != 5) continue;
    // One span, all of whose places are equally likely.
    for (const auto& [span, positions] : counts.spans) {
      CHECK(std::ssize(positions) == 6 - span);
      for (const auto& [position, count] : positions) {
        check_share(count, counts.spans_of(span), 1.0 / static_cast<double>(6 - span));
      }
    }
  }
}

TEST_CASE("masks are functions of seed, epoch and segment, whatever the batches") {
  // The tokens are their positions, so that sorted targets tell what is masked.
  const auto masked = [](Index batch, const std::optional<Epoch>& epoch) {
    MaskedBatches batches(counted_tokens(995), 10, batch, {2000, 1000, 2000});
    std::map<Index, Index> found;
    for (const auto& slots : epoch ? epoch_batches(batches, *epoch) : evaluation_batches(batches)) {
      for (const SlotBatch& slot : slots) {
        for (std::size_t n = 0; n < slot.targets.rows.size(); ++n) {
          found[slot.targets.tokens[n]] =
              slot.input.tokens[static_cast<std::size_t>(slot.targets.rows[n])];
        }
      }
    }
    return found;
  };
  const auto first = masked(7, Epoch{1, 0});
  CHECK(masked(30, Epoch{1, 0}) == first);
  CHECK(masked(7, Epoch{2, 0}) != first);
  CHECK(masked(7, Epoch{1, 1}) != first);
  CHECK(masked(7, std::nullopt) != first);
  CHECK(masked(7, std::nullopt) == masked(30, std::nullopt));
}

TEST_CASE("the inputs of a masked batch are the tokens but for the targets") {
  const std::vector<Index> tokens = counted_tokens(101, 100);
  const MaskedBatches batches(tokens, 10, 4, {7, 500, 600});
  CHECK(batches.items() == 11);
  std::vector<Index> restored;
  for (const auto& slots : evaluation_batches(batches)) {
    for (SlotBatch slot : slots) {
      for (std::size_t n = 0; n < slot.targets.rows.size(); ++n) {
        Index& token = slot.input.tokens[static_cast<std::size_t>(slot.targets.rows[n])];
        CHECK((token == 7 || token == slot.targets.tokens[n] || (token >= 500 && token < 600)));
        token = slot.targets.tokens[n];
      }
      for (const auto& sequence : checked_rows(slot.input)) {
        restored.insert(restored.end(), sequence.begin(), sequence.end());
      }
    }
  }
  CHECK(restored == tokens);
  CHECK(is_input_error([] { MaskedBatches({}, 4, 2, {0, 1, 2}); }));
}

TEST_CASE("pairs: the target after <s>, and before </s>") {
  constexpr Index start = 1000;
  constexpr Index end = 1001;
  std::vector<TokenPair> pairs;
  for (Index n = 0; n < 21; ++n) {
    pairs.push_back({counted_tokens(1 + n * 5 % 7, 10 * n), counted_tokens(n * 3 % 8, 300 + n)});
  }
  PairBatches batches(pairs, {start, end, 5, 6, 10});
  Index cut = 0;
  for (const TokenPair& pair : pairs) cut += pair.source.size() > 5 || pair.target.size() > 5;
  CHECK(cut > 0);
  CHECK(batches.cut() == cut);
  for (const bool trained : {true, false}) {
    const AllBatches all = trained ? epoch_batches(batches, {4, 2}) : evaluation_batches(batches);
    const std::vector<Index> order = trained ? epoch_order(21, {4, 2}) : counted_tokens(21);
    REQUIRE(all.size() == 3);
    check_ranges(all[2], 1);
    std::size_t item = 0;
    for (const auto& slots : all) {
      for (const SlotBatch& slot : slots) {
        const auto sources = checked_rows(slot.source);
        const auto inputs = checked_rows(slot.input);
        REQUIRE(sources.size() == inputs.size());
        std::size_t row = 0;
        for (std::size_t n = 0; n < inputs.size(); ++n) {
          TokenPair pair = pairs[static_cast<std::size_t>(order[item++])];
          pair.source.resize(std::min<std::size_t>(pair.source.size(), 5));
          pair.target.resize(std::min<std::size_t>(pair.target.size(), 5));
          CHECK(sources[n] == pair.source);
          std::vector<Index> input = pair.target;
          input.insert(input.begin(), start);
          CHECK(inputs[n] == input);
          pair.target.push_back(end);
          for (std::size_t i = 0; i < pair.target.size(); ++i, ++row) {
            CHECK(slot.targets.tokens[row] == pair.target[i]);
            const auto expected = n * static_cast<std::size_t>(slot.input.sequences.length) + i;
            CHECK(slot.targets.rows[row] == static_cast<Index>(expected));
          }
        }
        CHECK(row == slot.targets.rows.size());
      }
    }
    CHECK(item == 21);
  }
  CHECK(is_input_error([] { PairBatches({}, {0, 1, 5, 5, 2}); }));
  CHECK(is_input_error([] { PairBatches({{{1}, {2}}, {{}, {2}}}, {0, 1, 5, 5, 2}); }));
}
