// lib/train: batches of sequences with classes, of matching pairs, and of cloze questions.

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "thrown_error.hpp"
#include "train/example_batches.hpp"

using namespace attn;
using namespace attn::train;
using namespace attn::testing;

namespace {

std::vector<Index> input_of(const SlotBatch& slot, Index n) {
  const Sequences sequences = slot.input.view();
  const auto first = slot.input.tokens.begin() + n * sequences.length;
  return {first, first + sequences.own_length(n)};
}

std::vector<Index> source_of(const SlotBatch& slot, Index n) {
  const Sequences sequences = slot.source.view();
  const auto first = slot.source.tokens.begin() + n * sequences.length;
  return {first, first + sequences.own_length(n)};
}

// Calls body(slot, number of the sequence in it) for all items of a pass.
template <class Body>
void for_each_item(const std::vector<SlotBatch>& slots, const Body& body) {
  for (const SlotBatch& slot : slots) {
    for (Index n = 0; n < slot.input.sequences.count; ++n) body(slot, n);
  }
}

std::vector<TokenPair> numbered_pairs(Index count) {
  std::vector<TokenPair> pairs;
  // Two of three have a target of their own.
  for (Index n = 0; n < count; ++n) pairs.push_back({{n, n}, {n % 3 == 2 ? 0 : n}});
  return pairs;
}

}  // namespace

TEST_CASE("sequences with classes") {
  LabelledBatches batches({{{5, 6, 7}, 2}, {{}, 0}, {{8}, 1}}, 2, 4);
  CHECK(batches.items() == 3);
  CHECK(batches.cut() == 1);
  CHECK(batches.longest() == 2);
  std::vector<std::vector<Index>> inputs;
  std::vector<Index> labels;
  for_each_item(batches.evaluation(0), [&](const SlotBatch& slot, Index n) {
    inputs.push_back(input_of(slot, n));
    CHECK(slot.targets.rows[static_cast<std::size_t>(n)] == n);
    labels.push_back(slot.targets.tokens[static_cast<std::size_t>(n)]);
  });
  CHECK(inputs == std::vector<std::vector<Index>>{{5, 6}, {}, {8}});
  CHECK(labels == std::vector<Index>{2, 0, 1});
  CHECK(thrown_error([] { LabelledBatches({}, 2, 4); }).failure() == Failure::input);
}

TEST_CASE("half of the pairs do not belong together") {
  MatchBatches batches(numbered_pairs(9), {.source_length = 9, .length = 9, .batch = 32});
  CHECK(batches.items() == 18);
  const auto shuffled = [&](const std::vector<SlotBatch>& slots) {
    std::vector<Index> targets(9, -1);
    Index matching = 0;
    for_each_item(slots, [&](const SlotBatch& slot, Index n) {
      const Index source = source_of(slot, n).front();
      const Index target = input_of(slot, n).front();
      const Index own = source % 3 == 2 ? 0 : source;
      const Index found = slot.targets.tokens[static_cast<std::size_t>(n)];
      CHECK(found == (target == own ? matching_class : 1 - matching_class));
      if (found == matching_class) {
        ++matching;
      } else {
        targets[static_cast<std::size_t>(source)] = target;
      }
    });
    CHECK(matching == 9);
    CHECK(std::count(targets.begin(), targets.end(), -1) == 0);
    return targets;
  };
  const auto evaluated = shuffled(batches.evaluation(0));
  CHECK(evaluated == shuffled(batches.evaluation(0)));
  const auto first = shuffled(batches.training({4, 0}, 0));
  CHECK(first == shuffled(batches.training({4, 0}, 0)));
  CHECK(first != shuffled(batches.training({4, 1}, 0)));
  CHECK(first != shuffled(batches.training({5, 0}, 0)));
  const std::vector<TokenPair> equal = {{{1}, {2}}, {{3}, {2}}};
  CHECK(thrown_error([&] {
          MatchBatches(equal, {.source_length = 1, .length = 1, .batch = 1});
        }).failure() == Failure::input);
}

TEST_CASE("other targets are equally likely") {
  const Index pairs = 5;
  std::vector<TokenPair> all;
  for (Index n = 0; n < pairs; ++n) all.push_back({{n}, {n}});
  MatchBatches batches(all, {.source_length = 1, .length = 1, .batch = 2 * pairs});
  std::vector<Index> counts(static_cast<std::size_t>(pairs * pairs));
  const Index epochs = 2000;
  for (Index epoch = 0; epoch < epochs; ++epoch) {
    for_each_item(batches.training({1, epoch}, 0), [&](const SlotBatch& slot, Index n) {
      ++counts[static_cast<std::size_t>(source_of(slot, n)[0] * pairs + input_of(slot, n)[0])];
    });
  }
  for (Index a = 0; a < pairs; ++a) {
    for (Index b = 0; b < pairs; ++b) {
      const Index count = counts[static_cast<std::size_t>(a * pairs + b)];
      // Five standard deviations of a binomial number with p = 1/4: 97.
      if (a == b) CHECK(count == epochs);
      if (a != b) CHECK(std::abs(static_cast<double>(count) - epochs / 4.0) < 97);
    }
  }
}

TEST_CASE("cloze questions") {
  ClozeOptions options;
  options.lines = 2;
  options.blank = 9;
  options.eligible = {true, true, true, true, false, true, true, true, true, false};
  // In line 3 only 1 was said; line 4 has 4 that may not be asked for; line 5 has 5 and 1.
  const std::vector<std::vector<Index>> lines = {{1, 2}, {},     {3},      {1, 6, 1},
                                                 {4, 4}, {5, 7}, {5, 4, 7}};
  const ClozeQuestions questions(lines, options);
  REQUIRE(questions.questions.size() == 2);
  CHECK(questions.questions[0].words == std::vector<Index>{1});
  CHECK(questions.questions[1].words == std::vector<Index>{5, 7});
  ClozeBatches batches(questions, options, 8);
  CHECK(batches.longest_source() == 4);
  CHECK(batches.longest() == 3);
  std::set<Index> asked;
  for (Index epoch = 0; epoch < 20; ++epoch) {
    for_each_item(batches.training({1, epoch}, 0), [&](const SlotBatch& slot, Index n) {
      const std::vector<Index> question = input_of(slot, n);
      const std::vector<Index> document = source_of(slot, n);
      const Index word = slot.targets.tokens[static_cast<std::size_t>(n)];
      asked.insert(word);
      CHECK(std::count(document.begin(), document.end(), word) > 0);
      CHECK(std::count(question.begin(), question.end(), word) == 0);
      if (word == 1) {
        CHECK(question == std::vector<Index>{9, 6, 9});
        CHECK(document == std::vector<Index>{1, 2, 3});
      }
    });
  }
  CHECK(asked == std::set<Index>{1, 5, 7});
  CHECK(thrown_error([&] {
          ClozeQuestions({{1}, {2}, {3}}, options);
        }).failure() == Failure::input);
  CHECK(thrown_error([&] { ClozeQuestions({{1}}, options); }).failure() == Failure::input);
}

TEST_CASE("questions whose answer is a span") {
  SpanBatches batches({{{5, 6, 7}, {1}, 1, 2}, {{8}, {2, 3}, 0, 0}}, 4);
  CHECK(batches.longest_source() == 3);
  CHECK(batches.longest() == 2);
  std::vector<Index> positions;
  for_each_item(batches.evaluation(0), [&](const SlotBatch& slot, Index n) {
    CHECK(source_of(slot, n).size() == (positions.empty() ? 3 : 1));
    CHECK(slot.targets.rows == std::vector<Index>{0, 0});
    positions.insert(positions.end(), slot.targets.tokens.begin(), slot.targets.tokens.end());
  });
  CHECK(positions == std::vector<Index>{1, 2, 0, 0});
  CHECK(thrown_error([] { SpanBatches({}, 4); }).failure() == Failure::input);
}
