// Plans that run again and again allocate no memory besides their results.

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "allocation_count.hpp"
#include "attnkit/attention.hpp"
#include "attnkit/barycentre.hpp"
#include "attnkit/basis_paths.hpp"
#include "attnkit/collapse.hpp"
#include "attnkit/dual.hpp"
#include "attnkit/statistics.hpp"
#include "attnkit/transport.hpp"
#include "long_run.hpp"
#include "sanitized.hpp"
#include "tensor/memory_pool.hpp"

using namespace attn;
using testing::long_run;
using testing::sanitized;

namespace {

constexpr Index heads = 4;

// Numbers between -1 and 1 without a pattern.
template <class T>
std::vector<T> numbers(Index count) {
  std::vector<T> made;
  for (Index n = 0; n < count; ++n) {
    made.push_back(static_cast<T>(std::sin(static_cast<double>(n * n % 7919 + n))));
  }
  return made;
}

template <class T>
std::vector<T> magnitudes(Index count) {
  std::vector<T> made = numbers<T>(count);
  for (T& number : made) number = std::abs(number) + T{0.125};
  return made;
}

struct Steady {
  std::function<void()> run;
  std::function<std::int64_t()> workspace_bytes;
};

// Problems of about `size` queries and keys; iterations grow with it.
using Maker = std::function<Steady(Index size, int threads)>;

struct AttentionArrays {
  std::vector<float> q, k, v, up, out, grad_q, grad_k;
  std::vector<double> col_sum, row_potential;
  explicit AttentionArrays(Index count)
      : q(numbers<float>(count)),
        k(q),
        v(q),
        up(q),
        out(q),
        grad_q(q),
        grad_k(q),
        col_sum(q.size()),
        row_potential(q.size()) {}
};

Maker attention(Scheme scheme, bool differentiates) {
  return [=](Index size, int threads) {
    const Shape shape{heads, size, 16};
    auto at = std::make_shared<AttentionArrays>(heads * size * 16);
    AttentionInputs<float> in;
    in.q = {at->q.data(), shape};
    in.k = {at->k.data(), shape};
    in.v = {at->v.data(), shape};
    AttentionOptions options;
    options.scheme = scheme;
    options.causal = Causal::top_left;
    if (scheme == Scheme::sinkhorn) options.stopping.iterations = size / 20;
    auto plan = std::make_shared<AttentionPlan<float>>(shapes_of(in), options, threads);
    AttentionOutputs<float> to;
    to.out = {at->out.data(), shape};
    to.col_sum = {at->col_sum.data(), plan->key_shape()};
    to.row_potential = {at->row_potential.data(), plan->query_shape()};
    if (!differentiates) {
      return Steady{[=, keep = at] { plan->run(in, to); }, [=] { return plan->workspace_bytes(); }};
    }
    AttentionGradients<float> gradients;
    gradients.q = {at->grad_q.data(), shape};
    gradients.k = {at->grad_k.data(), shape};
    return Steady{[=] {
                    plan->gradients(in, {at->up.data(), shape}, gradients, to);
                  },
                  [=] { return plan->gradient_workspace_bytes(); }};
  };
}

// Projections of sequences whose lengths change from run to run.
Steady padded_projections(Index size, int threads) {
  auto at = std::make_shared<AttentionArrays>(heads * size * 16);
  auto lengths = std::make_shared<std::vector<Index>>(heads);
  auto turn = std::make_shared<Index>(0);
  AttentionInputs<float> in;
  in.x = {at->q.data(), {heads, size, 16}};
  in.wq = in.wk = {at->k.data(), {1, 16, 16}};
  in.query_length = in.key_length = {lengths->data(), {heads}};
  auto plan = std::make_shared<AttentionPlan<float>>(shapes_of(in), AttentionOptions(), threads);
  const AttentionOutputs<float> to{
      .row_potential = {at->row_potential.data(), plan->query_shape()}};
  return Steady{[=, keep = at] {
                  for (std::size_t n = 0; n < lengths->size(); ++n) {
                    (*lengths)[n] = size - (*turn + static_cast<Index>(n)) % 3;
                  }
                  ++*turn;
                  plan->run(in, to);
                },
                [=] { return plan->workspace_bytes(); }};
}

// The later half of the keys is after all queries.
Steady points_that_nothing_sees(Index size, int threads) {
  auto at = std::make_shared<AttentionArrays>(heads * size * 16);
  AttentionInputs<float> in;
  in.q = {at->q.data(), {heads, size / 2, 16}};
  in.k = {at->k.data(), {heads, size, 16}};
  AttentionOptions options;
  options.energy = "gaussian";
  options.causal = Causal::top_left;
  auto plan = std::make_shared<AttentionPlan<float>>(shapes_of(in), options, threads);
  const AttentionOutputs<float> to{.col_sum = {at->col_sum.data(), plan->key_shape()}};
  return Steady{[=, keep = at] { plan->run(in, to); }, [=] { return plan->workspace_bytes(); }};
}

Maker transport(bool points, bool fixed) {
  return [=](Index size, int threads) {
    const Shape shape{heads, size, points ? 3 : size};
    auto cost = std::make_shared<std::vector<float>>(magnitudes<float>(heads * size * shape[2]));
    auto sums = std::make_shared<std::vector<double>>(static_cast<std::size_t>(heads * size));
    TransportInputs<float> in;
    (points ? in.x : in.cost) = {cost->data(), shape};
    if (points) in.y = in.x;
    TransportOptions options;
    options.epsilon = 0.5;
    options.solver.keeps_errors = false;
    if (fixed) {
      options.solver.stopping.iterations = size / 10;
    } else {
      options.solver.stopping.tolerance = 100 / std::exp(static_cast<double>(size) / 10);
    }
    auto plan = std::make_shared<TransportPlan<float>>(shapes_of(in), options, threads);
    const TransportOutputs<float> to{.row_potential = {sums->data(), plan->row_shape()}};
    return Steady{[=, keep = std::pair(cost, sums)] { plan->run(in, to); },
                  [=] { return plan->workspace_bytes(); }};
  };
}

// In a divergence, half of the lines have no mass, and L depends on their potentials.
Maker through_solution(bool divergence) {
  return [=](Index size, int threads) {
    const Shape shape{heads, size, 3};
    auto points = std::make_shared<std::vector<float>>(magnitudes<float>(heads * size * 3));
    auto slope = std::make_shared<std::vector<double>>(numbers<double>(heads * size));
    auto gradient = std::make_shared<std::vector<float>>(points->size());
    auto masses = std::make_shared<std::vector<double>>(slope->size());
    auto sums = std::make_shared<std::vector<double>>(slope->size());
    for (std::size_t n = 0; n < sums->size(); n += 2) (*sums)[n] = 1;
    TransportInputs<float> in;
    in.x = {points->data(), shape};
    in.y = in.x;
    in.grad_row_potential = {slope->data(), {heads, size}};
    TransportOptions options;
    options.solver.keeps_errors = false;
    options.solver.stopping.iterations = size / 10;
    if (divergence) {
      options.divergence = true;
      in.row_marginal = in.col_marginal = {sums->data(), {heads, size}};
      in.grad_col_potential = in.grad_row_self_potential = in.grad_col_self_potential =
          in.grad_row_potential;
    }
    auto plan = std::make_shared<TransportPlan<float>>(shapes_of(in), options, threads);
    TransportOutputs<float> to;
    to.through_solution = {.row_marginal = {masses->data(), plan->row_shape()},
                           .y = {gradient->data(), shape}};
    return Steady{
        [=, keep = std::tuple(points, slope, gradient, masses, sums)] { plan->run(in, to); },
        [=] { return plan->workspace_bytes(); }};
  };
}

Steady barycentre(Index size, int threads) {
  const Shape shape{heads, size, 3};
  auto points = std::make_shared<std::vector<float>>(magnitudes<float>(heads * size * 3));
  auto masses = std::make_shared<std::vector<double>>(static_cast<std::size_t>(2 * size), 1.0);
  auto slope = std::make_shared<std::vector<double>>(numbers<double>(size));
  auto gradient = std::make_shared<std::vector<float>>(static_cast<std::size_t>(heads * size * 3));
  auto weights = std::make_shared<std::vector<double>>(static_cast<std::size_t>(2 * heads));
  (*masses)[0] = 0;
  (*masses)[static_cast<std::size_t>(size)] = 0;
  BarycentreInputs<float> in;
  in.x = {points->data(), shape};
  in.y = in.x;
  in.histograms = {masses->data(), {2, size}};
  in.grad_barycentre = {slope->data(), {size}};
  BarycentrePlanOptions options;
  options.solver.keeps_errors = false;
  options.solver.stopping.iterations = size / 10;
  auto plan = std::make_shared<BarycentrePlan<float>>(shapes_of(in), options, threads);
  BarycentreOutputs<float> to;
  to.optimum.weights = {weights->data(), {heads, 2}};
  to.through_barycentre.y = {gradient->data(), shape};
  return Steady{
      [=, keep = std::tuple(points, masses, slope, gradient, weights)] { plan->run(in, to); },
      [=] { return plan->workspace_bytes(); }};
}

Maker dual(bool with_cost, bool with_radius = false) {
  return [=](Index size, int threads) {
    const Index count = size / 8;
    auto templates = std::make_shared<std::vector<double>>(numbers<double>(heads * count * 12));
    auto cost = std::make_shared<std::vector<double>>(magnitudes<double>(heads * count * count));
    auto p = std::make_shared<std::vector<double>>(numbers<double>(heads * 6 * count));
    auto evidence = std::make_shared<std::vector<double>>(numbers<double>(heads * 6 * 12));
    DualInputs in;
    in.templates = {templates->data(), {heads, count, 12}};
    in.evidence = {evidence->data(), {heads, 6, 12}};
    if (with_cost) in.cost = {cost->data(), {heads, count, count}};
    DualPlanOptions options;
    // Less than the squared norm of most of the evidence.
    if (with_radius) options.square_radius = 5;
    auto plan = std::make_shared<DualPlan>(shapes_of(in), options, threads);
    DualOutputs to{.p = {p->data(), plan->p_shape()}};
    if (with_radius) to.first_order_p = to.p;
    return Steady{[=, keep = std::pair(templates, evidence), also = std::pair(cost, p)] {
                    plan->run(in, to);
                  },
                  [=] { return plan->workspace_bytes(); }};
  };
}

Steady statistics(Index size, int threads) {
  auto sums = std::make_shared<std::vector<double>>(magnitudes<double>(heads * size));
  StatisticsInputs in;
  in.column_sums = {sums->data(), {heads, size}};
  StatisticsOptions options;
  options.scheme = Scheme::dnas;
  options.summary.bins = 10;
  auto plan = std::make_shared<StatisticsPlan>(shapes_of(in), options, threads);
  return {[=, keep = sums] { plan->run(in); }, [=] { return plan->workspace_bytes(); }};
}

Maker path_step(Optimizer optimizer) {
  return [=](Index size, int threads) {
    const Shape shape{heads, 8, size};
    auto weights = std::make_shared<std::vector<float>>(magnitudes<float>(heads * 8 * size));
    auto moments = std::make_shared<std::vector<float>>(weights->size() * 4, 0.0F);
    auto others = std::make_shared<std::vector<float>>(*weights);
    auto gradients = std::make_shared<std::vector<float>>(numbers<float>(heads * 8 * size));
    auto in = std::make_shared<PathInputs<float>>();
    in->wq = {weights->data(), shape};
    in->wk = {others->data(), shape};
    in->grad_wq = in->grad_wk = {gradients->data(), shape};
    auto plan = std::make_shared<PathPlan<float>>(
        shapes_of(*in), StepOptions{.optimizer = optimizer, .rate = 1e-6}, threads);
    in->skeletons = plan->cyclic_skeletons();
    PathOutputs<float> out;
    out.wq = {weights->data(), shape};
    out.wk = {others->data(), shape};
    out.first_moment = {moments->data(), plan->moments_shape()};
    out.second_moment = {moments->data() + weights->size() * 2, plan->moments_shape()};
    return Steady{
        [=, keep = std::vector{weights, moments, others, gradients}] { plan->run(*in, out); },
        [=] { return plan->workspace_bytes(); }};
  };
}

// Exact transport, or a divergence, of points, and its derivatives.
Maker transport_of_points(bool exact) {
  return [=](Index size, int threads) {
    const Shape shape{heads, size, 3};
    auto points = std::make_shared<std::vector<float>>(magnitudes<float>(heads * size * 3));
    auto gradient = std::make_shared<std::vector<float>>(*points);
    auto sums = std::make_shared<std::vector<double>>(static_cast<std::size_t>(heads * size));
    TransportInputs<float> in;
    in.x = {points->data(), shape};
    in.y = in.x;
    TransportOptions options;
    options.solver.keeps_errors = false;
    if (exact) {
      options.exact = ExactOptions{.gap = 0.1, .max_iterations = size / 4};
    } else {
      options.epsilon = 0.5;
      options.divergence = true;
      options.solver.stopping.iterations = size / 10;
    }
    auto plan = std::make_shared<TransportPlan<float>>(shapes_of(in), options, threads);
    const TransportOutputs<float> to{.col_marginal_gradient = {sums->data(), plan->col_shape()},
                                     .y_gradient = {gradient->data(), shape}};
    return Steady{[=, keep = std::tuple(points, gradient, sums)] { plan->run(in, to); },
                  [=] { return plan->workspace_bytes(); }};
  };
}

Steady clusters(Index size, int threads) {
  const Shape shape{heads, size, 5};
  auto points = std::make_shared<std::vector<float>>(numbers<float>(heads * size * 5));
  auto labels = std::make_shared<std::vector<Index>>();
  for (Index n = 0; n < size; ++n) labels->push_back(n % 7);
  auto plan = std::make_shared<collapse::ClusterPlan<float>>(shape, Shape{size}, 7, 1.0, threads);
  return {[=] {
            plan->run({points->data(), shape}, {labels->data(), {size}});
          },
          [=] { return plan->workspace_bytes(); }};
}

Maker self_attention(Scheme scheme) {
  return [=](Index size, int threads) {
    const Shape shape{heads, size, 5};
    auto points = std::make_shared<std::vector<float>>(numbers<float>(heads * size * 5));
    auto next = std::make_shared<std::vector<float>>(*points);
    collapse::SelfAttentionOptions options;
    options.scheme = scheme;
    if (scheme == Scheme::sinkhorn) options.stopping.iterations = size / 20;
    auto plan = std::make_shared<collapse::SelfAttentionPlan<float>>(shape, options, threads);
    return Steady{[=] {
                    plan->step({points->data(), shape}, {next->data(), shape});
                  },
                  [=] { return plan->workspace_bytes(); }};
  };
}

Steady mixture(Index size, int threads) {
  const Shape shape{heads, size, 5};
  const Shape centres{heads, 6, 5};
  auto points = std::make_shared<std::vector<double>>(numbers<double>(heads * size * 5));
  auto centre = std::make_shared<std::vector<double>>(numbers<double>(heads * 6 * 5));
  auto prior = std::make_shared<std::vector<double>>(heads * 6, -std::log(6.0));
  auto variance = std::make_shared<std::vector<double>>(heads, 1.0);
  auto plan =
      std::make_shared<collapse::MixturePlan>(shape, centres, collapse::EmOptions{}, threads);
  return {[=] {
            const collapse::MixtureViews<double> all{{centre->data(), centres},
                                                     {prior->data(), {heads, 6}},
                                                     {variance->data(), {heads}}};
            plan->step({points->data(), shape}, all, all);
            plan->log_likelihood({points->data(), shape}, all);
          },
          [=] { return plan->workspace_bytes(); }};
}

std::int64_t page_faults() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

struct Cost {
  std::int64_t allocations = std::numeric_limits<std::int64_t>::max();
  std::int64_t faults = std::numeric_limits<std::int64_t>::max();
};

// The least of a few runs: other threads of the process may allocate, too.
Cost cost_of(const Steady& steady) {
  const std::int64_t before = MemoryPool::all_bytes();
  steady.run();
  CHECK(MemoryPool::all_bytes() - before <= steady.workspace_bytes());
  steady.run();
  Cost least;
  for (int n = 0; n < 3; ++n) {
    const std::int64_t faults = page_faults();
    const std::int64_t allocations = testing::allocations();
    steady.run();
    least.allocations = std::min(least.allocations, testing::allocations() - allocations);
    least.faults = std::min(least.faults, page_faults() - faults);
  }
  CHECK(MemoryPool::all_bytes() - before <= steady.workspace_bytes());
  return least;
}

void check(const std::string& name, const Maker& make) {
  CAPTURE(name);
  const std::vector<int> counts = long_run() ? std::vector{1, 3, 9} : std::vector{1, 9};
  for (const int threads : sanitized ? std::vector{3} : counts) {
    CAPTURE(threads);
    const Cost small = cost_of(make(120, threads));
    const Cost large = cost_of(make(long_run() ? 400 : 240, threads));
    // Shapes of operands, and results: some for each problem, whatever its size.
    CHECK(large.allocations <= 30 + 16 * heads);
    CHECK(large.allocations == small.allocations);
    // Threads that share a problem take blocks in any order, and so touch more pages now and then.
    // A buffer that is made anew would be dozens of pages; the system moves one or two by itself,
    // and a sanitizer touches pages of its own.
    if (threads <= heads && !sanitized) CHECK(large.faults <= 8);
  }
}

}  // namespace

TEST_CASE("attention in the steady state") {
  for (const Scheme scheme :
       {Scheme::unas, Scheme::dnas, Scheme::hnas, Scheme::fenchel, Scheme::sinkhorn}) {
    CAPTURE(static_cast<int>(scheme));
    check("run", attention(scheme, false));
    check("gradients", attention(scheme, true));
  }
  check("lengths that change", padded_projections);
  check("points that nothing sees", points_that_nothing_sees);
}

TEST_CASE("other plans in the steady state") {
  check("cost", transport(false, false));
  check("cost, fixed", transport(false, true));
  check("points", transport(true, false));
  check("points, fixed", transport(true, true));
  check("points, exact", transport_of_points(true));
  check("points, through the solution", through_solution(false));
  check("points, through a divergence", through_solution(true));
  check("barycentre", barycentre);
  check("points, divergence", transport_of_points(false));
  check("dual", dual(false));
  check("dual with a cost", dual(true));
  check("dual with a radius", dual(false, true));
  check("statistics", statistics);
  check("adam", path_step(Optimizer::adam));
  check("si_sgd", path_step(Optimizer::si_sgd));
  check("si_adam", path_step(Optimizer::si_adam));
  check("clusters", clusters);
  check("self attention", self_attention(Scheme::unas));
  check("self attention, dnas", self_attention(Scheme::dnas));
  check("self attention, sinkhorn", self_attention(Scheme::sinkhorn));
  check("mixture", mixture);
}
