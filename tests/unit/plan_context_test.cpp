// Runs of plans that are watched and stopped.

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>
#include <vector>

#include "attnkit/attention.hpp"
#include "attnkit/context.hpp"
#include "attnkit/transport.hpp"

using namespace attn;

namespace {

std::vector<float> some_numbers(Index count) {
  std::vector<float> made;
  for (Index n = 0; n < count; ++n) {
    made.push_back(static_cast<float>(std::sin(static_cast<double>(n * n % 7919 + n))));
  }
  return made;
}

// Attention of 6 heads.
struct Watched {
  Shape shape;
  std::vector<float> q, out;
  AttentionInputs<float> in;
  AttentionOutputs<float> to;

  explicit Watched(Index length)
      : shape{6, length, 8}, q(some_numbers(6 * length * 8)), out(q.size()) {
    in.q = in.k = in.v = {q.data(), shape};
    to.out = {out.data(), shape};
  }
};

}  // namespace

TEST_CASE("a run reports each problem, in order, on any number of threads") {
  Watched at(17);
  for (const int threads : {1, 2, 3, 9}) {
    std::vector<double> reported;
    AttentionPlan<float> plan(shapes_of(at.in), {},
                              {threads, nullptr, [&](double done) { reported.push_back(done); }});
    std::vector<double> expected;
    for (int n = 1; n <= 6; ++n) expected.push_back(n / 6.0);
    for (int run = 0; run < 2; ++run) {
      reported.clear();
      plan.run(at.in, at.to);
      CHECK(reported == expected);
    }
    std::vector<float> gradient(at.q.size());
    reported.clear();
    AttentionGradients<float> gradients;
    gradients.q = {gradient.data(), at.shape};
    plan.gradients(at.in, at.in.q, gradients);
    CHECK(reported == expected);
  }
}

TEST_CASE("a run whose flag is set throws, and the plan can run again with the same bits") {
  Watched at(33);
  AttentionPlan<float>(shapes_of(at.in), {}, 2).run(at.in, at.to);
  const std::vector<float> expected = at.out;
  for (const int threads : {1, 2, 8}) {
    std::atomic<bool> stop = true;
    AttentionPlan<float> plan(shapes_of(at.in), {}, {threads, &stop});
    CHECK_THROWS_AS(plan.run(at.in, at.to), Stopped);
    stop = false;
    at.out.assign(at.out.size(), 0);
    plan.run(at.in, at.to);
    CHECK(at.out == expected);
  }
}

TEST_CASE("a progress report may stop the run") {
  Watched at(9);
  std::atomic<bool> stop = false;
  std::vector<double> reported;
  AttentionPlan<float> plan(shapes_of(at.in), {}, {1, &stop, [&](double done) {
                                                     reported.push_back(done);
                                                     stop = reported.size() == 2;
                                                   }});
  CHECK_THROWS_AS(plan.run(at.in, at.to), Stopped);
  CHECK(reported.size() == 2);
}

TEST_CASE("another thread stops a single head and a transport that take long") {
  std::atomic<bool> stop = false;
  const auto stopped_early = [&](const auto& run) {
    stop = false;
    const auto start = std::chrono::steady_clock::now();
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      stop = true;
    });
    CHECK_THROWS_AS(run(), Stopped);
    other.join();
    // Far from the hours that they would take, and far above what a busy machine needs.
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(60));
  };

  const Index length = 2048;
  const std::vector<float> points = some_numbers(length * 4);
  std::vector<double> sums(static_cast<std::size_t>(length));
  AttentionInputs<float> in;
  in.q = in.k = {points.data(), {length, 4}};
  AttentionOptions attention;
  attention.scheme = Scheme::sinkhorn;
  attention.stopping.iterations = 10'000'000;
  AttentionPlan<float> plan(shapes_of(in), attention, {2, &stop});
  stopped_early([&] { plan.run(in, {.col_sum = {sums.data(), plan.key_shape()}}); });

  TransportInputs<float> between;
  between.x = between.y = {points.data(), {length, 4}};
  TransportOptions transport;
  transport.epsilon = 0.01;
  transport.solver.stopping.iterations = 10'000'000;
  transport.solver.keeps_errors = false;
  TransportPlan<float> moved(shapes_of(between), transport, {2, &stop});
  stopped_early([&] { moved.run(between, {.row_potential = {sums.data(), moved.row_shape()}}); });
}
