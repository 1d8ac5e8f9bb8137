// lib/train: the outputs of an encoder and a decoder, greedy and by beam search.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "thread_ranks.hpp"
#include "thrown_error.hpp"
#include "train/decoder_output.hpp"
#include "train_problem.hpp"

using namespace attn;
using namespace attn::train;
using namespace attn::testing;

namespace {

using Outputs = std::vector<std::vector<Index>>;

template <class T>
struct OutputProblem {
  Transformer model;
  std::vector<T> weights;

  explicit OutputProblem(const TransformerOptions& options, std::uint64_t seed = 3)
      : model(options), weights(static_cast<std::size_t>(model.parameters().size())) {
    model.parameters().initialise(seed, weights.data());
  }

  Outputs outputs(const Outputs& sources, const OutputOptions& options, int threads = 1) const {
    return decoder_outputs(model, weights.data(), sources, options, threads);
  }

  // The log p of every token behind <s> and some tokens, by a pass over all of them.
  std::vector<double> log_p(const std::vector<Index>& source, std::vector<Index> tokens,
                            Index start) const {
    tokens.insert(tokens.begin(), start);
    AttentionPlans<T> plans;
    Slot<T> slot;
    slot.weights = weights.data();
    slot.plans = &plans;
    Stack::Kept<T> encoder;
    Stack::Kept<T> decoder;
    const Sequences read = {1, std::ssize(source)};
    const Sequences written = {1, std::ssize(tokens)};
    const auto memory = model.encoder()->forward(slot, read, source.data(), {}, encoder);
    const auto last =
        model.decoder().forward(slot, written, tokens.data(), {read, memory}, decoder);
    const OwnedMatrix<T> z =
        model.softmax().logits(weights.data(), last.row_range(last.rows - 1, 1));
    double sum = 0;
    for (Index v = 0; v < z.cols(); ++v) sum += std::exp(static_cast<double>(z.data()[v]));
    std::vector<double> found;
    for (Index v = 0; v < z.cols(); ++v) {
      found.push_back(static_cast<double>(z.data()[v]) - std::log(sum));
    }
    return found;
  }

  std::vector<Index> greedy(const std::vector<Index>& source, const OutputOptions& options) const {
    std::vector<Index> tokens;
    while (std::ssize(tokens) < options.length) {
      std::vector<double> next = log_p(source, tokens, options.start);
      next[static_cast<std::size_t>(options.start)] = -std::numeric_limits<double>::infinity();
      const Index token = std::max_element(next.begin(), next.end()) - next.begin();
      if (token == options.end) break;
      tokens.push_back(token);
    }
    return tokens;
  }

  // The output that begins with `tokens` and has the largest mean of log p.
  struct Best {
    std::vector<Index> tokens;
    double mean = -std::numeric_limits<double>::infinity();
  };
  void try_all(const std::vector<Index>& source, const OutputOptions& options,
               const std::vector<Index>& tokens, double sum, Best& best) const {
    const std::vector<double> next = log_p(source, tokens, options.start);
    for (Index token = 0; token < std::ssize(next); ++token) {
      if (token == options.start) continue;
      const double longer_sum = sum + next[static_cast<std::size_t>(token)];
      std::vector<Index> longer = tokens;
      if (token != options.end) longer.push_back(token);
      if (token != options.end && std::ssize(longer) < options.length) {
        try_all(source, options, longer, longer_sum, best);
        continue;
      }
      const double mean = longer_sum / static_cast<double>(tokens.size() + 1);
      if (mean > best.mean) best = {longer, mean};
    }
  }
};

// Sequences have 1 to `longest` tokens.
Outputs some_sources(Index count, Index longest, Index vocabulary) {
  std::mt19937_64 random(5);
  Outputs sources;
  for (Index n = 0; n < count; ++n) {
    sources.emplace_back();
    for (Index i = 0; i <= n % longest; ++i) {
      sources.back().push_back(
          static_cast<Index>(random() % static_cast<std::uint64_t>(vocabulary)));
    }
  }
  return sources;
}

TransformerOptions output_model(Scheme encoder, bool variant) {
  TransformerOptions options = small_pair(encoder);
  if (variant) {
    options.layer.order = NormOrder::pre;
    options.layer.activation = Activation::gelu;
    options.positions = Positions::sinusoidal;
    options.tied = true;
  }
  return options;
}

}  // namespace

TEST_CASE_TEMPLATE("greedy outputs are the most probable tokens, one after the other", T, float,
                   double) {
  for (const Scheme scheme :
       {Scheme::unas, Scheme::dnas, Scheme::hnas, Scheme::sinkhorn, Scheme::transport}) {
    for (const bool variant : {false, true}) {
      CAPTURE(static_cast<int>(scheme));
      CAPTURE(variant);
      const OutputProblem<T> problem(output_model(scheme, variant));
      const Outputs sources = some_sources(18, 9, 7);
      bool ends = false;
      for (const Index length : {1, 2, 8}) {
        const OutputOptions options = {.start = 4, .end = 2, .length = length};
        const Outputs found = problem.outputs(sources, options);
        REQUIRE(found.size() == sources.size());
        for (std::size_t n = 0; n < sources.size(); ++n) {
          CHECK(found[n] == problem.greedy(sources[n], options));
          ends = ends || std::ssize(found[n]) < length;
        }
      }
      CHECK(ends);
    }
  }
}

TEST_CASE_TEMPLATE("a beam that holds everything finds the best of all outputs", T, float, double) {
  bool differs = false;
  for (const bool variant : {false, true}) {
    for (const std::uint64_t seed : {1, 2, 3}) {
      TransformerOptions made = output_model(Scheme::dnas, variant);
      made.vocabulary = 4;
      const OutputProblem<T> problem(made, seed);
      const Outputs sources = some_sources(9, 9, 7);
      for (const Index length : {1, 2, 4}) {
        // 4^length is more than there can be.
        const OutputOptions options = {.start = 0, .end = 3, .length = length, .beam = 256};
        const Outputs found = problem.outputs(sources, options);
        for (std::size_t n = 0; n < sources.size(); ++n) {
          typename OutputProblem<T>::Best best;
          problem.try_all(sources[n], options, {}, 0, best);
          CHECK(found[n] == best.tokens);
          differs = differs || found[n] != problem.greedy(sources[n], options);
        }
      }
    }
  }
  CHECK(differs);
}

TEST_CASE("outputs of models whose attentions are left out") {
  for (const int left_out : {1, 2, 4, 7}) {
    CAPTURE(left_out);
    TransformerOptions made = output_model(Scheme::dnas, false);
    made.encoder.left_out = (left_out & 1) != 0;
    made.decoder.left_out = (left_out & 2) != 0;
    made.cross.left_out = (left_out & 4) != 0;
    made.vocabulary = 4;
    const OutputProblem<double> problem(made);
    const Outputs sources = some_sources(9, 9, 7);
    const Outputs greedy = problem.outputs(sources, {.start = 0, .end = 3, .length = 4});
    const OutputOptions all = {.start = 0, .end = 3, .length = 4, .beam = 256};
    const Outputs found = problem.outputs(sources, all);
    for (std::size_t n = 0; n < sources.size(); ++n) {
      CHECK(greedy[n] == problem.greedy(sources[n], all));
      OutputProblem<double>::Best best;
      problem.try_all(sources[n], all, {}, 0, best);
      CHECK(found[n] == best.tokens);
    }
  }
}

TEST_CASE("a beam keeps the largest sums") {
  // The search, step by step, with sums by whole passes.
  const OutputProblem<double> problem(output_model(Scheme::unas, false));
  const Outputs sources = some_sources(9, 9, 7);
  for (const Index beam : {1, 2, 3, 5}) {
    CAPTURE(beam);
    const OutputOptions options = {.start = 4, .end = 2, .length = 6, .beam = beam};
    const Outputs found = problem.outputs(sources, options);
    for (std::size_t n = 0; n < sources.size(); ++n) {
      std::vector<std::pair<double, std::vector<Index>>> kept = {{0, {}}};
      for (Index step = 0; step < options.length; ++step) {
        auto all = kept;
        std::erase_if(all,
                      [](const auto& one) { return one.second.empty() || one.second.back() != 2; });
        for (const auto& [sum, tokens] : kept) {
          if (!tokens.empty() && tokens.back() == 2) continue;
          const auto next = problem.log_p(sources[n], tokens, options.start);
          for (Index token = 0; token < 9; ++token) {
            if (token == options.start) continue;
            all.emplace_back(sum + next[static_cast<std::size_t>(token)], tokens);
            all.back().second.push_back(token);
          }
        }
        std::sort(all.begin(), all.end(), std::greater<>());
        all.resize(std::min<std::size_t>(all.size(), static_cast<std::size_t>(beam)));
        kept = all;
      }
      for (auto& [score, tokens] : kept) score /= static_cast<double>(tokens.size());
      std::vector<Index> best = std::max_element(kept.begin(), kept.end())->second;
      if (best.back() == 2) best.pop_back();
      CHECK(found[n] == best);
      if (beam == 1) CHECK(found[n] == problem.greedy(sources[n], options));
    }
  }
}

TEST_CASE("of equally probable tokens the smallest is chosen") {
  OutputProblem<double> problem(small_pair(Scheme::unas));
  std::fill(problem.weights.begin(), problem.weights.end(), 0);
  const Outputs sources = some_sources(3, 9, 7);
  for (const Index beam : {1, 2, 100}) {
    CAPTURE(beam);
    for (const auto& output : problem.outputs(sources, {0, 8, 3, beam})) {
      // All means are equal: the largest sum is that of the shortest output, once it is kept.
      CHECK(output == (beam == 100 ? std::vector<Index>{} : std::vector<Index>{1, 1, 1}));
    }
    for (const auto& output : problem.outputs(sources, {8, 0, 3, beam})) CHECK(output.empty());
  }
}

TEST_CASE_TEMPLATE("an output depends on its source alone, whatever the threads and the ranks", T,
                   float, double) {
  const OutputProblem<T> problem(output_model(Scheme::hnas, true));
  const Outputs sources = some_sources(23, 9, 7);
  for (const Index beam : {1, 3}) {
    const OutputOptions options = {.start = 4, .end = 2, .length = 7, .beam = beam};
    const Outputs all = problem.outputs(sources, options);
    for (const int threads : {2, 3, 8}) CHECK(problem.outputs(sources, options, threads) == all);
    for (const Outputs& found : on_ranks(3, [&] { return problem.outputs(sources, options); })) {
      CHECK(found == all);
    }
    CHECK(on_ranks(2, [&] { return problem.outputs({}, options); })[1].empty());
    for (std::size_t n = 0; n < sources.size(); ++n) {
      CHECK(problem.outputs({sources[n]}, options) == Outputs{all[n]});
    }
    CHECK(problem.outputs({}, options, 2).empty());
  }
}

TEST_CASE("the rows of a decoder position by position are those of a whole pass") {
  const OutputProblem<double> problem(output_model(Scheme::dnas, true));
  const Transformer& model = problem.model;
  const std::vector<Index> source = {1, 5, 3, 3};
  const std::vector<Index> tokens = {4, 0, 7, 7, 1, 8, 2, 5};
  AttentionPlans<double> plans;
  Slot<double> slot;
  slot.weights = problem.weights.data();
  slot.plans = &plans;
  Stack::Kept<double> encoder;
  Stack::Kept<double> decoder;
  const Sequences read = {1, 4};
  const auto memory = model.encoder()->forward(slot, read, source.data(), {}, encoder);
  const auto want = model.decoder().forward(slot, {1, 8}, tokens.data(), {read, memory}, decoder);
  auto past = model.decoder().no_past<double>(slot, {read, memory}, 9, 8);
  double worst = 0;
  for (Index t = 0; t < 8; ++t) {
    // Twice the same sequence, of which the second goes on.
    if (t > 0) past.choose({1, 1});
    const Index token = tokens[static_cast<std::size_t>(t)];
    const std::vector<Index> next = t == 0 ? std::vector<Index>{token} : std::vector{token, token};
    const OwnedMatrix<double> got = model.decoder().extend(slot, next, past);
    for (Index c = 0; c < got.size(); ++c) {
      const double difference = std::abs(got.data()[c] - want(t, c % want.cols));
      if (!(difference <= worst)) worst = difference;
    }
    if (t == 0) past.choose({0, 0});
  }
  // Rounding of about 100 sums of at most ten products of the order of 1.
  CHECK(worst <= 1e-13);
}

TEST_CASE("what has no outputs is refused") {
  const OutputOptions good = {.start = 4, .end = 2, .length = 8, .beam = 2};
  const OutputProblem<float> problem(small_pair(Scheme::unas));
  const auto failure_of = [&](const auto& changed, const Outputs& sources, const auto& options) {
    return thrown_error([&] { changed.outputs(sources, options, 2); }).failure();
  };
  CHECK(failure_of(OutputProblem<float>(small_stack(Scheme::unas, true)), {{1}}, good) ==
        Failure::usage);
  for (const bool self : {true, false}) {
    TransformerOptions changed = small_pair(Scheme::unas);
    (self ? changed.decoder : changed.cross).scheme.scheme = Scheme::dnas;
    CHECK(failure_of(OutputProblem<float>(changed), {{1}}, good) == Failure::usage);
  }
  TransformerOptions open = small_pair(Scheme::unas);
  open.decoder.causal = false;
  CHECK(failure_of(OutputProblem<float>(open), {{1}}, good) == Failure::usage);
  for (const OutputOptions& bad : std::vector<OutputOptions>{
           {4, 2, 0, 1}, {4, 2, 9, 1}, {4, 2, 8, 0}, {9, 2, 8, 1}, {4, -1, 8, 1}, {2, 2, 8, 1}}) {
    CHECK(failure_of(problem, {{1}}, bad) == Failure::usage);
  }
  for (const std::vector<Index>& bad : Outputs{{}, {7}, {-1}, std::vector<Index>(10, 1)}) {
    const Error error = thrown_error([&] { problem.outputs({{1}, bad}, good); });
    CHECK(error.failure() == Failure::input);
    CHECK(contains(error.what(), "source 1 "));
  }
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), HUGE_VAL, -HUGE_VAL}) {
    OutputProblem<float> changed = problem;
    changed.weights.back() = static_cast<float>(bad);  // of the softmax' bias
    const Error error = thrown_error([&] { changed.outputs({{1}}, good); });
    CHECK(error.failure() == Failure::numerical);
    CHECK(contains(error.what(), "source 0: "));
  }
}
