#include "attnkit/error.hpp"
#include "mechanism_check.hpp"
#include "mechanisms/structured.hpp"

using namespace attn;
using namespace attn::testing;
using mechanisms::Structured;

namespace {

std::vector<Values> plain_structured(const PlainSequence& at) {
  const Index positions = at.size("T"), width = at.size("D"), inner = at.size("A");
  const Index hops = at.size("R");
  const auto entry = [](const Values& values, Index row, Index col, Index cols) {
    return values[static_cast<std::size_t>(row * cols + col)];
  };
  const Values& x = at.inputs[Structured::x];
  Values weights, out, overlap;
  long double penalty = 0, diagonal = 0, rest = 0;
  for (Index r = 0; r < hops; ++r) {
    Values row;
    long double sum = 0;
    for (Index t = 0; t < positions; ++t) {
      long double score = 0;
      for (Index a = 0; a < inner; ++a) {
        long double hidden = 0;
        for (Index d = 0; d < width; ++d) {
          hidden += entry(at.inputs[Structured::w1], a, d, width) * entry(x, t, d, width);
        }
        score += entry(at.inputs[Structured::w2], r, a, inner) * std::tanh(hidden);
      }
      row.push_back(std::exp(score));
      sum += row.back();
    }
    for (const long double one : row) weights.push_back(one / sum);
  }
  for (Index r = 0; r < hops; ++r) {
    for (Index d = 0; d < width; ++d) {
      long double mean = 0;
      for (Index t = 0; t < positions; ++t) {
        mean += entry(weights, r, t, positions) * entry(x, t, d, width);
      }
      out.push_back(mean);
    }
    for (Index s = 0; s < hops; ++s) {
      long double product = 0;
      for (Index t = 0; t < positions; ++t) {
        product += entry(weights, r, t, positions) * entry(weights, s, t, positions);
      }
      overlap.push_back(product);
      const long double off = product - (r == s ? 1 : 0);
      penalty += off * off;
      (r == s ? diagonal : rest) += product;
    }
  }
  const auto count = static_cast<long double>(hops);
  return {out,
          weights,
          overlap,
          {penalty},
          {diagonal / count},
          {hops > 1 ? rest / (count * (count - 1)) : 0}};
}

}  // namespace

TEST_CASE_TEMPLATE("structured self-attention", T, float, double) {
  const auto mechanism = Structured::make<T>();
  for (const Index positions : {0, 1, 2, 7, 33}) {
    for (const Index hops : {1, 3}) {
      check_mechanism(*mechanism, plain_structured,
                      {{"T", positions}, {"D", 5}, {"A", 4}, {"R", hops}});
    }
  }
  check_mechanism(*mechanism, plain_structured, {{"T", 3}, {"D", 1}, {"A", 1}, {"R", 1}});
}

TEST_CASE_TEMPLATE("structured self-attention over padded batches", T, float, double) {
  const auto mechanism = Structured::make<T>();
  const mechanisms::Sizes padded = {{"T", 9}, {"D", 5}, {"A", 4}, {"R", 3}};
  std::vector<mechanisms::Sizes> own(11, padded);
  for (std::size_t b = 0; b < own.size(); ++b) own[b]["T"] = static_cast<Index>(b * 5 % 10);
  for (const int threads : {1, 2, 16}) check_batch(*mechanism, padded, own, threads);
}

TEST_CASE("the penalty is 0 exactly for one-hot rows at different positions") {
  // Scores so far apart that the softmax is exactly one-hot.
  const auto mechanism = Structured::make<double>();
  std::vector<double> x = {1, 0, 0, 1, 0, 0};  // (3, 2)
  std::vector<double> w1 = {9, 0, 0, 9};
  std::vector<double> w2 = {2000, 0, 0, 2000};
  std::vector<double> overlap(4), penalty(1);
  mechanisms::Tensors<double> results(6);
  results[Structured::overlap] = {overlap.data(), {2, 2}};
  results[Structured::penalty] = {penalty.data(), {}};
  const auto run = [&] {
    mechanism->forward({{{x.data(), {3, 2}}, {w1.data(), {2, 2}}, {w2.data(), {2, 2}}}, {}},
                       results, 1);
  };
  run();
  CHECK(penalty[0] == 0);
  CHECK(overlap == std::vector<double>{1, 0, 0, 1});
  w2 = {2000, 0, 2000, 0};  // the same position twice
  run();
  CHECK(penalty[0] == 2);
  w2 = {0, 0, 0, 0};  // equal weights: orthonormal rows they are not
  run();
  CHECK(penalty[0] > 0);
}

TEST_CASE("shapes of a mechanism are solved, or refused by name") {
  using mechanisms::KnownShape;
  const auto& inputs = Structured::form().inputs;
  const auto sizes = [&](const Shape& x, const Shape& w1, const Shape& w2) {
    return mechanisms::sizes_of({{&inputs[0], x, 1}, {&inputs[1], w1, 0}, {&inputs[2], w2, 0}});
  };
  const mechanisms::Sizes expected = {{"T", 7}, {"D", 5}, {"A", 4}, {"R", 3}};
  CHECK(sizes({2, 7, 5}, {4, 5}, {3, 4}) == expected);
  CHECK_THROWS_WITH_AS(sizes({2, 7, 5}, {4, 6}, {3, 4}),
                       "w1 has the shape (4, 6), expected (A, D), with A = 4, D = 5", Error);
  CHECK_THROWS_AS(sizes({2, 7, 5}, {4, 5, 1}, {3, 4}), Error);
  // Sums and products.
  const mechanisms::TensorForm window = {"w_am", "A 2*K+1", ""};
  const mechanisms::TensorForm gates = {"w", "4*D D+E", ""};
  const mechanisms::TensorForm state = {"h", "D", ""};
  CHECK(mechanisms::sizes_of({{&window, {4, 7}, 0}}).at("K") == 3);
  CHECK_THROWS_AS(mechanisms::sizes_of({{&window, {4, 6}, 0}}), Error);
  CHECK(mechanisms::sizes_of({{&gates, {12, 8}, 0}, {&state, {3}, 0}}).at("E") == 5);
  CHECK(mechanisms::sizes_of({{&gates, {12, 8}, 0}}).at("D") == 3);
  CHECK_THROWS_AS(mechanisms::sizes_of({{&gates, {13, 8}, 0}}), Error);
  CHECK_THROWS_AS(mechanisms::sizes_of({{&gates, {12, 2}, 0}}), Error);
  CHECK(mechanisms::shape_of("4*D D+E", {{"D", 3}, {"E", 5}}) == Shape{12, 8});
}
