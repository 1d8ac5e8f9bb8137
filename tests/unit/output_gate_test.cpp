#include "head/output_gate.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "random_problem.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

template <class T>
struct GateProblem {
  Index queries, channels;
  std::vector<T> gate, out, grad_out;

  GateProblem(Random& random, Index queries_of_all, Index channels_of_all)
      : queries(queries_of_all), channels(channels_of_all) {
    std::normal_distribution<double> normal(0, 2);
    for (auto* const values : {&gate, &out, &grad_out}) {
      for (Index n = 0; n < queries * channels; ++n) {
        values->push_back(static_cast<T>(normal(random)));
      }
    }
  }

  // What queries or channels share are the first numbers of the gate.
  BroadcastMatrix<T> source(bool by_query, bool by_channel, Index first = 0) const {
    const Index row_stride = by_query ? channels : 0;
    return {gate.data() + first * row_stride, row_stride, by_channel ? 1 : 0};
  }
  double gate_at(bool by_query, bool by_channel, Index i, Index c) const {
    const Index place = (by_query ? i : 0) * channels + (by_channel ? c : 0);
    return static_cast<double>(gate[static_cast<std::size_t>(place)]);
  }
  MatrixView<const T> rows(const std::vector<T>& of, Index first, Index end) const {
    return {of.data() + first * channels, end - first, channels};
  }
};

template <class T>
void check_gate(Random& random, bool by_query, bool by_channel, Index queries, Index channels) {
  const GateProblem<T> problem(random, queries, channels);
  const BroadcastMatrix<T> gate = problem.source(by_query, by_channel);
  const auto out = problem.rows(problem.out, 0, queries);
  const auto grad_out = problem.rows(problem.grad_out, 0, queries);
  const Buffer<T> gated = through_gate<T>(gate, out);
  const Index rows = by_query ? queries : 1;
  const Index cols = by_channel ? channels : 1;
  std::vector<double> sums(static_cast<std::size_t>(rows * cols), 0.0);
  std::vector<double> sizes = sums;
  // One rounding of float64 in each sum, and one to the type at the end.
  const double unit = std::numeric_limits<T>::epsilon();
  for (Index i = 0; i < queries; ++i) {
    for (Index c = 0; c < channels; ++c) {
      const double share = 1 / (1 + std::exp(-problem.gate_at(by_query, by_channel, i, c)));
      const double before = static_cast<double>(out(i, c));
      CHECK(std::abs(static_cast<double>(gated[i * channels + c]) - share * before) <=
            unit * std::abs(before));
      const double term = before * static_cast<double>(grad_out(i, c)) * share * (1 - share);
      const auto place = static_cast<std::size_t>((by_query ? i : 0) * cols + (by_channel ? c : 0));
      sums[place] += term;
      sizes[place] += std::abs(term);
    }
  }
  std::vector<T> gradient(sums.size());
  differentiate_gate<T>(gate, out, grad_out, {gradient.data(), rows, cols});
  for (std::size_t n = 0; n < sums.size(); ++n) {
    CHECK(std::abs(static_cast<double>(gradient[n]) - sums[n]) <= unit * sizes[n]);
  }
}

}  // namespace

TEST_CASE("a gate and its gradient, which is a sum over what shares it") {
  Random random(31);
  for (const Index queries : {0, 1, 7}) {
    for (const Index channels : {1, 5}) {
      for (const bool by_query : {false, true}) {
        for (const bool by_channel : {false, true}) {
          CAPTURE(queries);
          CAPTURE(channels);
          CAPTURE(by_query);
          CAPTURE(by_channel);
          check_gate<float>(random, by_query, by_channel, queries, channels);
          check_gate<double>(random, by_query, by_channel, queries, channels);
        }
      }
    }
  }
}
