// lib/train: no bit of a step depends on the ranks that share its batch.

#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "train_problem.hpp"
#include "train_ranks.hpp"

using namespace attn;
using namespace attn::train;
using namespace attn::testing;

namespace {

std::vector<Index> some_lengths(Index count) {
  std::vector<Index> lengths;
  for (Index n = 0; n < count; ++n) lengths.push_back(1 + n * 5 % 7);
  return lengths;
}

// Ranks that count the bytes which they send; of gathered bytes each rank sends its part to all
// others.
class CountingRanks final : public Ranks {
 public:
  explicit CountingRanks(Ranks& ranks) : ranks_(ranks) {}

  int own() const override { return ranks_.own(); }
  int count() const override { return ranks_.count(); }
  void send(int to, std::span<const std::byte> bytes) override {
    sent_ += static_cast<double>(bytes.size());
    ranks_.send(to, bytes);
  }
  void receive(int from, std::span<std::byte> bytes) override { ranks_.receive(from, bytes); }
  void gather(std::span<std::byte> bytes, std::span<const std::int64_t> ends) override {
    const auto own_rank = static_cast<std::size_t>(own());
    const std::int64_t part = ends[own_rank] - (own_rank == 0 ? 0 : ends[own_rank - 1]);
    sent_ += static_cast<double>(part) * (count() - 1);
    ranks_.gather(bytes, ends);
  }
  double sent() const { return sent_; }

 private:
  Ranks& ranks_;
  double sent_ = 0;
};

// Ranks of which nothing is asked but who they are.
class NamedRanks final : public Ranks {
 public:
  NamedRanks(int own, int count) : own_(own), count_(count) {}

  int own() const override { return own_; }
  int count() const override { return count_; }
  void send(int, std::span<const std::byte>) override { FAIL("sends"); }
  void receive(int, std::span<std::byte>) override { FAIL("receives"); }
  void gather(std::span<std::byte>, std::span<const std::int64_t>) override { FAIL("gathers"); }

 private:
  int own_;
  int count_;
};

}  // namespace

TEST_CASE("ranks add the slots of a batch as one process does") {
  for (Index slots = 1; slots <= train::most_slots; ++slots) {
    // Sums as terms in brackets.
    const auto add = [](std::vector<std::string>& held, const auto& additions) {
      for (const BatchShare::Addition& one : additions) {
        std::string& to = held[static_cast<std::size_t>(one.to)];
        to = "(" + to + "+" + held[static_cast<std::size_t>(one.from)] + ")";
      }
    };
    std::vector<std::string> each;
    for (Index n = 0; n < slots; ++n) each.push_back(std::to_string(n));
    std::vector<std::string> alone = each;
    add(alone, BatchShare(slots, nullptr).own_additions());
    CHECK(BatchShare(slots, nullptr).last_additions().empty());
    if (slots == 8) CHECK(alone.front() == "(((0+1)+(2+3))+((4+5)+(6+7)))");
    for (int count = 1; count <= 11; ++count) {
      CAPTURE(slots);
      CAPTURE(count);
      // What a rank holds, or gets from the others.
      std::vector<std::string> held(static_cast<std::size_t>(slots));
      Index numbers = 0;
      for (int own = 0; own < count; ++own) {
        NamedRanks ranks(own, count);
        const BatchShare share(slots, &ranks);
        std::vector<std::string> of_rank = each;
        add(of_rank, share.own_additions());
        for (const Index slot : share.sums_of(own)) {
          CHECK(share.own().contains(slot));
          held[static_cast<std::size_t>(slot)] = of_rank[static_cast<std::size_t>(slot)];
        }
        if (slots == 8 && 8 % count == 0) CHECK(share.sums_of(own).size() == 1);
        CHECK(share.own_part(1000).first == numbers);
        numbers += share.own_part(1000).count;
      }
      CHECK(numbers == 1000);
      NamedRanks ranks(count - 1, count);
      add(held, BatchShare(slots, &ranks).last_additions());
      CHECK(held.front() == alone.front());
    }
  }
}

TEST_CASE("every rank meets every other one, in an order without waiting for ever") {
  for (int count = 1; count <= 9; ++count) {
    CAPTURE(count);
    // What each rank does next: it sends (true) or receives; and the other rank.
    std::vector<std::vector<std::pair<bool, int>>> todo(static_cast<std::size_t>(count));
    for (int own = 0; own < count; ++own) {
      NamedRanks ranks(own, count);
      auto& of_rank = todo[static_cast<std::size_t>(own)];
      BatchShare(8, &ranks).exchange([&](int to) { of_rank.emplace_back(true, to); },
                                     [&](int from) { of_rank.emplace_back(false, from); });
      CHECK(std::set(of_rank.begin(), of_rank.end()).size() ==
            static_cast<std::size_t>(2 * (count - 1)));
    }
    // A message goes through once its receiver waits for it.
    std::vector<std::size_t> at(todo.size(), 0);
    for (bool moves = true; moves;) {
      moves = false;
      for (int from = 0; from < count; ++from) {
        const auto sender = static_cast<std::size_t>(from);
        if (at[sender] == todo[sender].size() || !todo[sender][at[sender]].first) continue;
        const auto receiver = static_cast<std::size_t>(todo[sender][at[sender]].second);
        if (at[receiver] == todo[receiver].size() ||
            todo[receiver][at[receiver]] != std::pair(false, from)) {
          continue;
        }
        ++at[sender];
        ++at[receiver];
        moves = true;
      }
    }
    for (std::size_t rank = 0; rank < todo.size(); ++rank) CHECK(at[rank] == todo[rank].size());
  }
}

TEST_CASE_TEMPLATE("stacks of every scheme on ranks", T, float, double) {
  for (const Scheme scheme : {Scheme::unas, Scheme::dnas, Scheme::hnas, Scheme::sinkhorn}) {
    CAPTURE(static_cast<int>(scheme));
    TransformerOptions options = small_stack(scheme, scheme == Scheme::unas);
    options.tied = scheme == Scheme::dnas;
    options.smoothing = 0.1;
    const Transformer model(options);
    check_ranks_of<T>(model, token_slots(options, some_lengths(19), scheme == Scheme::unas));
  }
}

TEST_CASE_TEMPLATE("encoders and decoders, the order of segments and small batches on ranks", T,
                   float, double) {
  const TransformerOptions pair = small_pair(Scheme::hnas);
  const Transformer of_pairs(pair);
  for (const Index sequences : {1, 2, 5, 11}) {
    CAPTURE(sequences);
    check_ranks_of<T>(of_pairs, token_slots(pair, some_lengths(sequences), false));
  }
  TransformerOptions ordered = small_stack(Scheme::unas, false);
  ordered.order = true;
  std::vector<SlotBatch> slots = token_slots(ordered, some_lengths(11), false);
  for (SlotBatch& slot : slots) {
    for (Index n = 0; n < slot.input.sequences.count; ++n) slot.swapped.push_back(n % 2);
  }
  check_ranks_of<T>(Transformer(ordered), slots);
}

TEST_CASE_TEMPLATE("every optimiser on ranks, in paths too", T, float, double) {
  const TransformerOptions options = small_stack(Scheme::dnas, false);
  const Transformer model(options);
  const auto slots = token_slots(options, some_lengths(13), false);
  std::vector<PathLayer> layers;
  for (const TransformerLayer& layer : model.decoder().layers()) {
    layers.push_back({layer.self()->group(), layer.self()->wq(), layer.self()->wk(),
                      layer.self()->heads().options().heads});
  }
  for (const Rule rule : {Rule::sgd, Rule::adam, Rule::lamb}) {
    CAPTURE(static_cast<int>(rule));
    OptimizerOptions of;
    of.rule = rule;
    of.decay = 0.01;
    of.clip = 0.5;
    check_ranks_of<T>(model, slots, of);
    if (rule != Rule::lamb) check_ranks_of<T>(model, slots, of, layers);
  }
}

TEST_CASE("the bytes that ranks send in a step are those of the formula") {
  TransformerOptions options = small_pair(Scheme::unas);
  // Messages of the order of 100 bytes are then below a percent of the whole.
  options.layer.width = 48;
  options.layer.inner = 96;
  const Transformer model(options);
  const auto slots = token_slots(options, some_lengths(16), false);
  double summed = 0;
  for (const Parameter& one : model.parameters().all()) {
    if (!one.by_rows) summed += static_cast<double>(one.size());
  }
  CHECK(summed < static_cast<double>(model.parameters().size()));
  std::vector<double> weights(static_cast<std::size_t>(model.parameters().size()));
  model.parameters().initialise(3, weights.data());
  for (const int count : {2, 3, 4, 8}) {
    CAPTURE(count);
    const auto sent = on_ranks(count, [&] {
      CountingRanks counting(*Ranks::current());
      const Ranks::Use use(&counting);
      BatchPass<Transformer, double> pass(model, 1);
      pass.differentiate(weights.data(), slots, {}, 5, 1);
      return counting.sent();
    });
    for (int own = 0; own < count; ++own) {
      CAPTURE(own);
      NamedRanks ranks(own, count);
      const BatchShare share(8, &ranks);
      double rows = 0;
      for (Index n = 0; n < share.own().count; ++n) {
        const SlotBatch& slot = slots[static_cast<std::size_t>(share.own().first + n)];
        rows += static_cast<double>(slot.source.sequences.rows() + slot.input.sequences.rows());
      }
      const auto sums = static_cast<double>(share.sums_of(own).size());
      const double formula =
          8 * ((sums + 1) * summed * (count - 1) / count + rows * 48 * (count - 1));
      CHECK(std::abs(sent[static_cast<std::size_t>(own)] - formula) <= 0.01 * formula);
    }
  }
}
