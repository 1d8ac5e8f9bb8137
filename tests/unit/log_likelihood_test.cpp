// The log-likelihood of the mixture that an attention stands for, as a plan reports it.

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

#include "attnkit/attention.hpp"
#include "plan_array.hpp"
#include "random_problem.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

// The log-likelihood of the rows of `data`, where each centre has the weight e^log_prior.
template <class T>
long double expected(MatrixView<const T> data, MatrixView<const T> centres, double variance,
                     const T* log_prior) {
  const auto d = static_cast<long double>(data.cols);
  long double priors = 0;
  for (Index i = 0; i < centres.rows; ++i) {
    priors += std::exp(static_cast<long double>(log_prior == nullptr ? T{0} : log_prior[i]));
  }
  long double sum = 0;
  for (Index j = 0; j < data.rows; ++j) {
    long double density = 0;
    for (Index i = 0; i < centres.rows; ++i) {
      long double square = 0;
      for (Index c = 0; c < data.cols; ++c) {
        const auto x = static_cast<long double>(data(j, c)) - centres(i, c);
        square += x * x;
      }
      const long double log = log_prior == nullptr ? T{0} : log_prior[i];
      density += std::exp(log - square / (2 * variance)) / priors;
    }
    sum += std::log(density) - d / 2 * std::log(2 * std::numbers::pi_v<long double> * variance);
  }
  return sum;
}

template <class T>
void check(Random& random, Index queries, Index keys, Index depth, Scheme scheme, bool biased) {
  CAPTURE(queries);
  CAPTURE(keys);
  const bool dnas = scheme == Scheme::dnas;
  const Array<T> q = normal_array<T>({2, queries, depth}, random);
  const Array<T> k = normal_array<T>({keys, depth}, random);
  const Array<T> bias = normal_array<T>(dnas ? Shape{queries, 1} : Shape{1, keys}, random);
  AttentionInputs<T> in;
  in.q = q.view();
  in.k = k.view();
  if (biased) in.bias = bias.view();
  AttentionOptions options;
  options.scheme = scheme;
  options.energy = "gaussian";
  options.scale = 1.5;
  for (const int threads : {1, 4}) {
    const AttentionSummary found =
        AttentionPlan<T>(shapes_of(in), options, threads).run(in, AttentionOutputs<T>());
    REQUIRE(found.problems.size() == 2);
    for (Index problem = 0; problem < 2; ++problem) {
      const MatrixView<const T> own(q.values.data() + problem * queries * depth, queries, depth);
      const MatrixView<const T> shared(k.values.data(), keys, depth);
      const long double want = expected<T>(dnas ? shared : own, dnas ? own : shared, 1 / 1.5,
                                           biased ? bias.values.data() : nullptr);
      // Each potential has the error of scores of up to 100.
      const double limit = (sizeof(T) == sizeof(float) ? 1e-5 : 1e-13) *
                           static_cast<double>(std::max(queries, keys));
      const auto& values = found.problems[static_cast<std::size_t>(problem)].log_likelihood;
      REQUIRE(values.size() == 1);
      CHECK(std::abs(values.front() - want) <= limit);
    }
  }
}

}  // namespace

TEST_CASE_TEMPLATE("a plan reports the log-likelihood of its mixture", T, float, double) {
  Random random(1);
  for (const Scheme scheme : {Scheme::unas, Scheme::dnas}) {
    for (const bool biased : {false, true}) {
      check<T>(random, 1, 1, 1, scheme, biased);
      check<T>(random, 5, 3, 2, scheme, biased);
      check<T>(random, 129, 65, 7, scheme, biased);
    }
  }
}

TEST_CASE("other schemes and energies have no log-likelihood") {
  const std::vector<double> numbers = {1, 2, 3};
  AttentionInputs<double> in;
  in.q = in.k = {numbers.data(), {3, 1}};
  const auto of = [&](const AttentionOptions& options) {
    return AttentionPlan<double>(shapes_of(in), options, 1).run(in, {}).problems.front();
  };
  AttentionOptions options;
  options.scheme = Scheme::dnas;
  options.energy = "gaussian";
  CHECK(of(options).log_likelihood.size() == 1);
  options.energy = "dot";
  CHECK(of(options).log_likelihood.empty());
  options.energy = "gaussian";
  options.scheme = Scheme::hnas;
  CHECK(of(options).log_likelihood.empty());
}
