// Scores of bfloat16 numbers: tiles, bounds, plans and refusals.

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>

#include "attnkit/attention.hpp"
#include "energy/energy_description.hpp"
#include "energy/table.hpp"
#include "score/energy.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

std::vector<float> bf16_numbers(Index count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& x : values) {
    x = std::bit_cast<float>(std::bit_cast<std::uint32_t>(normal(random)) & 0xFFFF0000U);
  }
  return values;
}

MatrixView<const float> bf16_view(const std::vector<float>& values, Index cols) {
  return {values.data(), static_cast<Index>(values.size()) / cols, cols};
}

struct Bf16Problem {
  Index queries, keys, depth;
  std::vector<float> q = bf16_numbers(queries * depth, 1);
  std::vector<float> k = bf16_numbers(keys * depth, 2);
  std::vector<float> v = bf16_numbers(keys * 3, 3);

  AttentionInputs<float> inputs() const {
    AttentionInputs<float> in;
    in.q = {q.data(), {queries, depth}};
    in.k = {k.data(), {keys, depth}};
    in.v = {v.data(), {keys, 3}};
    return in;
  }
};

std::vector<float> bf16_out(const Bf16Problem& problem, const AttentionOptions& options,
                            int threads) {
  AttentionPlan<float> plan(shapes_of(problem.inputs()), options, threads);
  std::vector<float> out(static_cast<std::size_t>(problem.queries * 3));
  AttentionOutputs<float> outputs;
  outputs.out = {out.data(), plan.out_shape()};
  plan.run(problem.inputs(), outputs);
  return out;
}

}  // namespace

TEST_CASE("a tile's bits do not depend on where it begins, and are within the bound") {
  for (const Index depth : {1, 2, 7, 64, 65}) {
    const Bf16Problem problem{37, 203, depth};
    const auto energy =
        make_bf16_energy(bf16_view(problem.q, depth), bf16_view(problem.k, depth), 0.125);
    std::vector<float> whole(37 * 203);
    energy->fill({0, 37, 0, 203}, {whole.data(), 37, 203});
    double worst = 0;
    for (Index i = 0; i < 37; ++i) {
      for (Index j = 0; j < 203; ++j) {
        double sum = 0;
        double size = 0;
        for (Index c = 0; c < depth; ++c) {
          const double term =
              static_cast<double>(problem.q[static_cast<std::size_t>(i * depth + c)]) *
              static_cast<double>(problem.k[static_cast<std::size_t>(j * depth + c)]);
          sum += term;
          size += std::abs(term);
        }
        const double error = std::abs(
            0.125 * sum - static_cast<double>(whole[static_cast<std::size_t>(i * 203 + j)]));
        // One more rounding for the scale, which is exact here.
        worst = std::max(worst, error / (static_cast<double>(depth) * 0x1p-24 * 0.125 * size));
      }
    }
    CHECK(worst <= 1);
    for (const Index col0 : {1, 3, 64, 65, 131}) {
      std::vector<float> part(5 * 9);
      energy->fill({7, 5, col0, 9}, {part.data(), 5, 9});
      bool same = true;
      for (Index i = 0; i < 5; ++i) {
        for (Index j = 0; j < 9; ++j) {
          same = same && part[static_cast<std::size_t>(i * 9 + j)] ==
                             whole[static_cast<std::size_t>((7 + i) * 203 + col0 + j)];
        }
      }
      CAPTURE(col0);
      CHECK(same);
    }
  }
}

TEST_CASE("plans with bfloat16 products agree with float32 to 2^-16, for any threads") {
  for (const Bf16Problem& problem :
       {Bf16Problem{1, 1, 1}, Bf16Problem{5, 300, 33}, Bf16Problem{130, 517, 64}}) {
    for (const Scheme scheme : {Scheme::unas, Scheme::dnas, Scheme::hnas}) {
      AttentionOptions options;
      options.scheme = scheme;
      const std::vector<float> want = bf16_out(problem, options, 1);
      options.tuning.bf16 = true;
      const std::vector<float> got = bf16_out(problem, options, 1);
      CHECK(bf16_out(problem, options, 3) == got);
      for (std::size_t n = 0; n < got.size(); ++n) {
        // Σ_j π_ij |v_j| is below 1 for most rows, and above 0.1.
        CHECK(std::abs(got[n] - want[n]) <= 0x1p-16 * 0.5);
      }
    }
  }
}

TEST_CASE("bfloat16 products are refused where they are not meant") {
  const Bf16Problem problem{3, 4, 6};
  AttentionOptions options;
  options.tuning.bf16 = true;
  const auto refused = [&](const AttentionOptions& given, const std::string& part) {
    const Error error = thrown_error([&] { bf16_out(problem, given, 1); });
    CHECK(error.failure() == Failure::usage);
    CHECK(contains(error.what(), part));
  };
  AttentionOptions other = options;
  other.energy = "gaussian";
  refused(other, "the energies scaled-dot and dot, not gaussian");
  other = options;
  other.repetition = Repetition{};
  refused(other, "do not go with a repetition");

  AttentionShapes scores;
  scores.scores = Shape{3, 4};
  const Error ready_made = thrown_error([&] { AttentionPlan<float>(scores, options, 1); });
  CHECK(contains(ready_made.what(), "require the operands q and k"));
  const AttentionShapes shapes = shapes_of(problem.inputs());
  const Error wide = thrown_error([&] { AttentionPlan<double>(shapes, options, 1); });
  CHECK(wide.failure() == Failure::usage);
  CHECK(contains(wide.what(), "float32"));

  Bf16Problem wrong = problem;
  wrong.k[13] = 0.1F;
  const Error number = thrown_error([&] { bf16_out(wrong, options, 1); });
  CHECK(number.failure() == Failure::input);
  CHECK(contains(number.what(), "key 2: number 1 is 0.1, expected a bfloat16 number"));
}
