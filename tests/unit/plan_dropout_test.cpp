// AttentionPlan::set_dropout: outputs from the weights that it keeps, and gradients.

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "kernel/dropout.hpp"
#include "plan_problem.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

constexpr std::uint64_t dropout_seed = 21;
constexpr std::uint64_t dropout_stream = 5;
constexpr double dropout_rate = 0.4;

// Some problems of attention with dropout, and a loss ⟨dO, out⟩.
template <class T>
struct Dropped {
  Batch<T> batch;
  AttentionOptions options;
  std::vector<Index> lengths;

  AttentionInputs<T> inputs() const {
    AttentionInputs<T> in = batch.inputs();
    if (!lengths.empty()) in.query_length = {lengths.data(), {batch.sizes.batches}};
    return in;
  }

  AttentionPlan<T> plan(int threads) const {
    AttentionPlan<T> made(shapes_of(inputs()), options, threads);
    made.set_dropout(dropout_rate, dropout_seed, dropout_stream);
    return made;
  }

  std::vector<T> out(int threads, std::vector<T>* weights = nullptr) const {
    AttentionPlan<T> made = plan(threads);
    std::vector<T> found(batch.grad_out.size());
    AttentionOutputs<T> outputs;
    outputs.out = {found.data(), made.out_shape()};
    if (weights != nullptr) {
      Shape shape = made.query_shape();
      shape.push_back(batch.sizes.keys);
      weights->resize(static_cast<std::size_t>(batch.sizes.problems() * batch.sizes.queries *
                                               batch.sizes.keys));
      outputs.weights = {weights->data(), shape};
    }
    made.run(inputs(), outputs);
    return found;
  }

  double loss() const {
    double sum = 0;
    const std::vector<T> found = out(1);
    for (std::size_t n = 0; n < found.size(); ++n) {
      sum += static_cast<double>(found[n]) * static_cast<double>(batch.grad_out[n]);
    }
    return sum;
  }
};

const BatchSizes sizes_with_dropout[] = {BatchSizes{2, 4, 2, 5, 7, 3, 2},
                                         BatchSizes{1, 2, 2, 65, 33, 8, 4},
                                         BatchSizes{1, 2, 1, 280, 300, 4, 3}};

}  // namespace

TEST_CASE_TEMPLATE("outputs are those of the weights that dropout keeps", T, float, double) {
  Random random(421);
  for (const BatchSizes& sizes : sizes_with_dropout) {
    for (const Scheme scheme : all_schemes) {
      for (const bool padded : {false, true}) {
        CAPTURE(static_cast<int>(scheme));
        CAPTURE(sizes.queries);
        CAPTURE(padded);
        Dropped<T> problem{{sizes, random, false}, attention_options(scheme), {}};
        if (padded) problem.lengths.assign(static_cast<std::size_t>(sizes.batches), 3);
        std::vector<T> weights;
        const std::vector<T> out = problem.out(1, &weights);
        CHECK(problem.out(3) == problem.out(1));
        // Element ((problem·Lq) + query)·Lk + key of the stream.
        std::vector<T> kept(weights.size(), T{1});
        kernel::dropout(kept.data(), 0, static_cast<Index>(kept.size()), dropout_rate,
                        {dropout_seed, dropout_stream});
        double worst = 0;
        for (Index p = 0; p < sizes.problems(); ++p) {
          const MatrixView<const T> v = problem.batch.v_of(p);
          for (Index i = 0; i < sizes.queries; ++i) {
            for (Index c = 0; c < sizes.v_head_dim; ++c) {
              double want = 0;
              for (Index j = 0; j < sizes.keys; ++j) {
                const auto at = static_cast<std::size_t>((p * sizes.queries + i) * sizes.keys + j);
                want += static_cast<double>(weights[at]) * static_cast<double>(kept[at]) *
                        static_cast<double>(v(j, c));
              }
              const auto at =
                  static_cast<std::size_t>((p * sizes.queries + i) * sizes.v_head_dim + c);
              worst = std::max(worst, std::abs(static_cast<double>(out[at]) - want));
            }
          }
        }
        // Sums of up to 300 terms of at most 5, weights within a few roundings.
        CHECK(worst <= 100 * static_cast<double>(std::numeric_limits<T>::epsilon()));
      }
    }
  }
}

TEST_CASE("gradients with dropout against differences") {
  Random random(422);
  for (const BatchSizes& sizes : sizes_with_dropout) {
    for (const Scheme scheme : all_schemes) {
      CAPTURE(static_cast<int>(scheme));
      CAPTURE(sizes.queries);
      Dropped<double> problem{{sizes, random, false}, attention_options(scheme), {}};
      const AttentionInputs<double> in = problem.inputs();
      std::vector<double> q(problem.batch.q.size()), k(problem.batch.k.size()),
          v(problem.batch.v.size());
      AttentionGradients<double> to;
      to.q = {q.data(), in.q.shape};
      to.k = {k.data(), in.k.shape};
      to.v = {v.data(), in.v.shape};
      AttentionPlan<double> plan = problem.plan(2);
      plan.gradients(in, problem.batch.upstream(), to);
      const auto check = [&](std::vector<double>& values, const std::vector<double>& gradient) {
        const std::vector<double> before = values;
        const auto direction = random_numbers<double>(static_cast<Index>(values.size()), random);
        const auto moved = [&](double by) {
          for (std::size_t n = 0; n < values.size(); ++n) values[n] = before[n] + by * direction[n];
          return problem.loss();
        };
        const double difference = (moved(1e-5) - moved(-1e-5)) / 2e-5;
        values = before;
        double product = 0;
        double size = 1;
        for (std::size_t n = 0; n < values.size(); ++n) {
          product += gradient[n] * direction[n];
          size += std::abs(gradient[n] * direction[n]);
        }
        CHECK(std::abs(difference - product) <= 1e-7 * size);
      };
      check(problem.batch.q, q);
      check(problem.batch.k, k);
      check(problem.batch.v, v);
    }
  }
}

TEST_CASE("a rate of dropout out of range is refused, and 0 changes no bit") {
  Random random(423);
  Dropped<float> problem{{BatchSizes{}, random, false}, attention_options(Scheme::dnas), {}};
  const AttentionInputs<float> in = problem.inputs();
  AttentionPlan<float> plan(shapes_of(in), problem.options, 1);
  for (const double rate : {-0.1, 1.0, std::numeric_limits<double>::quiet_NaN()}) {
    const Error error = thrown_error([&] { plan.set_dropout(rate, 1, 1); });
    CHECK(error.failure() == Failure::usage);
  }
  std::vector<float> first(problem.batch.grad_out.size()), second(first);
  AttentionOutputs<float> outputs;
  outputs.out = {first.data(), plan.out_shape()};
  plan.run(in, outputs);
  plan.set_dropout(0.5, 1, 1);
  plan.run(in, outputs);
  plan.set_dropout(0, 1, 1);
  outputs.out.data = second.data();
  plan.run(in, outputs);
  std::vector<float> fresh(first.size());
  AttentionPlan<float> other(shapes_of(in), problem.options, 1);
  outputs.out.data = fresh.data();
  other.run(in, outputs);
  CHECK(second == fresh);
  CHECK(first != fresh);
}
