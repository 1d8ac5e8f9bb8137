#include <doctest/doctest.h>

#include <cmath>
#include <tuple>

#include "attnkit/collapse.hpp"
#include "collapse/cluster_statistics.hpp"
#include "collapse/expectation_maximisation.hpp"
#include "collapse/self_attention.hpp"
#include "infinity.hpp"
#include "plan_array.hpp"
#include "same_bits.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::collapse;
using namespace attn::testing;

namespace {

template <class T>
void check_self_attention(const SelfAttentionOptions& options, EnergyKind energy, Random& random) {
  for (const auto& size : {std::pair<Index, Index>{1, 1}, {2, 3}, {33, 2}, {70, 5}}) {
    const Index n = size.first;
    const Index d = size.second;
    CAPTURE(n);
    CAPTURE(d);
    const Array<T> points = normal_array<T>({2, 2, n, d}, random);
    for (const int threads : {1, 3, 9}) {
      SelfAttentionPlan<T> plan(points.shape, options, threads);
      Array<T> next(points.shape, T{7});
      const std::vector<SelfAttentionStep> steps = plan.step(points.view(), next.view());
      REQUIRE(steps.size() == 4);
      SelfAttention direct;
      direct.scheme.scheme = options.scheme;
      direct.scheme.hybrid = options.hybrid;
      direct.scheme.stopping = options.stopping;
      direct.energy = energy;
      direct.scale = options.scale;
      direct.residual = options.residual;
      for (Index problem = 0; problem < 4; ++problem) {
        std::vector<T> expected(static_cast<std::size_t>(n * d));
        const SelfAttentionOutcome found = attend_to_each_other<T>(
            points.matrix(problem, {2, 2}), direct, {expected.data(), n, d}, 1);
        CHECK(same_bits(next.values.data() + problem * n * d, expected.data(), n * d));
        const SelfAttentionStep& step = steps[static_cast<std::size_t>(problem)];
        CHECK(step.status == found.summary.status);
        CHECK(step.iterations == found.summary.iterations);
        CHECK(std::isnan(step.log_likelihood) == !found.log_likelihood.has_value());
        if (found.log_likelihood) CHECK(step.log_likelihood == *found.log_likelihood);
      }
    }
  }
}

struct Mixtures {
  Array<double> centre, log_prior, variance;

  Mixtures(const Shape& leading, Index components, Index dimension, Random& random)
      : centre(normal_array<double>(join(leading, {components, dimension}), random)),
        log_prior(join(leading, {components}), -std::log(static_cast<double>(components))),
        variance(leading, 0.5) {}

  bool has_own_variances() const { return variance.shape == log_prior.shape; }
  void set_own_variances() {
    variance = Array<double>(log_prior.shape);
    for (std::size_t n = 0; n < variance.values.size(); ++n) {
      variance.values[n] = 0.5 + 0.1 * static_cast<double>(n % 5);
    }
  }

  MixtureViews<double> views() { return {centre.view(), log_prior.view(), variance.view()}; }
  MixtureViews<const double> views() const {
    return {centre.view(), log_prior.view(), variance.view()};
  }

  Mixture of(Index problem) const {
    const Index m = log_prior.shape.back();
    const Index d = centre.shape.back();
    Mixture made(m, d);
    std::copy_n(centre.values.data() + problem * m * d, m * d, made.centre.data());
    const double* const prior = log_prior.values.data() + problem * m;
    made.log_prior.assign(prior, prior + m);
    const Index variances = has_own_variances() ? m : 1;
    const double* const first = variance.values.data() + problem * variances;
    made.variance.assign(first, first + variances);
    return made;
  }
};

void check_mixtures(const EmOptions& options, Index m, Index n, Index d, bool own_variances,
                    Random& random) {
  const Array<double> points = normal_array<double>({2, n, d}, random);
  Mixtures from({3, 2}, m, d, random);
  if (own_variances) from.set_own_variances();
  for (const int threads : {1, 4}) {
    MixturePlan plan(points.shape, from.centre.shape, options, threads);
    Mixtures to({3, 2}, m, d, random);
    to.variance = Array<double>(from.variance.shape);
    const std::vector<EmStep> steps = plan.step(points.view(), from.views(), to.views());
    const std::vector<double> likelihood = plan.log_likelihood(points.view(), from.views());
    REQUIRE(steps.size() == 6);
    for (Index problem = 0; problem < 6; ++problem) {
      const auto at = static_cast<std::size_t>(problem);
      const MatrixView<const double> of_problem = points.matrix(problem, {3, 2});
      Mixture next = from.of(problem);
      const EmStep expected = em_step(of_problem, from.of(problem), options, next, 1);
      CHECK(steps[at].log_likelihood == expected.log_likelihood);
      CHECK(likelihood[at] == expected.log_likelihood);
      CHECK(steps[at].at_floor == expected.at_floor);
      const Mixture found = to.of(problem);
      CHECK(same_bits(found.centre.data(), next.centre.data(), m * d));
      CHECK(same_bits(found.log_prior, next.log_prior));
      CHECK(found.variance == next.variance);
    }
    // In place.
    Mixtures place = from;
    plan.step(points.view(), place.views(), place.views());
    CHECK(same_bits(place.centre.values, to.centre.values));
    CHECK(same_bits(place.variance.values, to.variance.values));
  }
}

template <class T>
void check_clusters(Random& random) {
  for (const Index d : {1, 2, 17}) {
    const Array<T> points = normal_array<T>({2, 3, 9, d}, random);
    Array<Index> labels({3, 9});
    for (std::size_t n = 0; n < labels.values.size(); ++n) {
      labels.values[n] = static_cast<Index>(n % 3);
    }
    for (const int threads : {1, 4}) {
      ClusterPlan<T> plan(points.shape, labels.shape, 3, 0.7, threads);
      const std::vector<ClusterStatistics> found = plan.run(points.view(), labels.view());
      REQUIRE(found.size() == 6);
      for (Index problem = 0; problem < 6; ++problem) {
        const Index* const of_points = labels.block(problem, {2, 3}, 1);
        const ClusterStatistics expected = cluster_statistics<T>(
            points.matrix(problem, {2, 3}), {of_points, std::size_t{9}}, 3, 0.7);
        const ClusterStatistics& one = found[static_cast<std::size_t>(problem)];
        CHECK(same_bits(one.centre, expected.centre));
        CHECK(same_bits(one.distance, expected.distance));
        CHECK(same_bits(one.spread, expected.spread));
        CHECK(one.modes == expected.modes);
      }
    }
  }
}

}  // namespace

TEST_CASE_TEMPLATE("self-attention plans step as each problem by itself", T, float, double) {
  Random random(941);
  SelfAttentionOptions options;
  check_self_attention<T>(options, EnergyKind::dot, random);
  options.scheme = Scheme::dnas;
  options.energy = "gaussian";
  options.scale = 1.5;
  check_self_attention<T>(options, EnergyKind::gaussian, random);
  options.scheme = Scheme::hnas;
  options.hybrid = 0.25;
  options.residual = true;
  options.energy = "scaled-dot";
  check_self_attention<T>(options, EnergyKind::scaled_dot, random);
  options.scheme = Scheme::sinkhorn;
  options.hybrid = 0.5;
  options.stopping.iterations = 5;
  check_self_attention<T>(options, EnergyKind::scaled_dot, random);
  options.stopping.tolerance = 1e-4;
  options.residual = false;
  check_self_attention<T>(options, EnergyKind::scaled_dot, random);
}

TEST_CASE("mixture plans step as each problem by itself") {
  Random random(942);
  for (const auto& size :
       {std::tuple<Index, Index, Index>{1, 1, 1}, {2, 1, 3}, {3, 40, 2}, {5, 70, 7}}) {
    const Index m = std::get<0>(size);
    const Index n = std::get<1>(size);
    const Index d = std::get<2>(size);
    CAPTURE(m);
    CAPTURE(n);
    EmOptions options;
    for (const bool own_variances : {false, true}) {
      options = {};
      check_mixtures(options, m, n, d, own_variances, random);
      options.priors = Priors::estimated;
      options.estimates_variance = true;
      check_mixtures(options, m, n, d, own_variances, random);
    }
    options.priors = Priors::dnas;
    check_mixtures(options, m, n, d, false, random);
  }
}

TEST_CASE("mixture plans set the priors of dnas") {
  Random random(943);
  Mixtures mixtures({4}, 3, 2, random);
  MixturePlan plan({5, 2}, mixtures.centre.shape, {}, 2);
  std::vector<Mixture> expected;
  for (Index problem = 0; problem < 4; ++problem) {
    expected.push_back(mixtures.of(problem));
    set_dnas_priors(expected.back());
  }
  plan.set_dnas_priors(mixtures.views());
  for (Index problem = 0; problem < 4; ++problem) {
    CHECK(same_bits(mixtures.of(problem).log_prior,
                    expected[static_cast<std::size_t>(problem)].log_prior));
  }
}

TEST_CASE_TEMPLATE("cluster plans describe each problem by itself", T, float, double) {
  Random random(944);
  check_clusters<T>(random);
}

TEST_CASE("collapse plans without problems") {
  const Array<double> none({0, 3, 2});
  Array<double> next({0, 3, 2});
  CHECK(SelfAttentionPlan<double>({0, 3, 2}, {}, 2).step(none.view(), next.view()).empty());
  const Array<Index> labels({3});
  CHECK(ClusterPlan<double>({0, 3, 2}, {3}, 1, 1, 2).run(none.view(), labels.view()).empty());
  Random random(945);
  const Mixtures mixtures({0}, 2, 2, random);
  CHECK(MixturePlan({3, 2}, {0, 2, 2}, {}, 2)
            .log_likelihood(normal_array<double>({3, 2}, random).view(), mixtures.views())
            .empty());
}

TEST_CASE("collapse plans refuse shapes, numbers and options") {
  const auto message = [](const auto& body) { return std::string(thrown_error(body).what()); };
  SelfAttentionOptions options;
  const auto step_of = [&] { SelfAttentionPlan<float>({3, 2}, options, 1); };
  options.energy = "bilinear";
  CHECK(contains(message(step_of), "the energy is \"bilinear\""));
  options = {};
  options.scale = infinity;
  CHECK(contains(message(step_of), "scale"));
  options = {};
  options.hybrid = -0.1;
  CHECK(contains(message(step_of), "hybrid"));
  options = {};
  options.stopping.iterations = 0;
  CHECK(contains(message(step_of), "iterations"));
  CHECK(contains(message([] { SelfAttentionPlan<float>({3}, {}, 1); }), "at least 2 axes"));
  CHECK(thrown_error([] { SelfAttentionPlan<float>({3, 2}, {}, 0); }).failure() == Failure::usage);

  Array<double> points({2, 3, 2}, 1.0);
  Array<double> next({2, 3, 2});
  SelfAttentionPlan<double> plan(points.shape, {}, 1);
  const Array<double>& known = points;
  points.values[8] = infinity;
  CHECK(contains(message([&] { plan.step(known.view(), next.view()); }),
                 "points has inf at [1, 1, 0]"));
  points.values[8] = 1e200;
  const Error error = thrown_error([&] { plan.step(known.view(), next.view()); });
  CHECK(error.failure() == Failure::numerical);
  CHECK(contains(error.what(), "problem [1]: "));
  points.values[8] = 1;
  next.shape = {3, 2, 2};
  CHECK(contains(message([&] { plan.step(known.view(), next.view()); }), "next is (3, 2, 2)"));

  CHECK(contains(message([] { MixturePlan({4, 2}, {3, 3}, {}, 1); }), "points has the last axes"));
  CHECK(contains(message([] { MixturePlan({2, 4, 2}, {3, 2}, {}, 1); }), "do not broadcast"));
  CHECK(contains(message([] { MixturePlan({4, 2}, {0, 2}, {}, 1); }), "at least one of each"));
  EmOptions em;
  em.min_variance = 0;
  CHECK(contains(message([&] { MixturePlan({4, 2}, {3, 2}, em, 1); }), "min_variance"));
  Random random(946);
  Mixtures mixtures({2}, 3, 2, random);
  MixturePlan mixture_plan({2, 3, 2}, mixtures.centre.shape, {}, 1);
  const auto step = [&] { mixture_plan.step(known.view(), mixtures.views(), mixtures.views()); };
  mixtures.variance.values[1] = 0;
  CHECK(contains(message(step), "variance has 0.000000 at [1]"));
  mixtures.variance.values[1] = 1;
  mixtures.log_prior.values[2] = -infinity;
  CHECK(contains(message(step), "log_prior has -inf at [0, 2]"));
  mixtures.log_prior.values[2] = -1;
  mixtures.centre.shape = {2, 2, 3};
  CHECK(contains(message(step), "centre is (2, 2, 3)"));
  mixtures.centre.shape = {2, 3, 2};
  step();
  mixtures.variance.shape = {2, 2};
  CHECK(contains(message(step), "variance is (2, 2)"));
  mixtures.set_own_variances();
  step();
  Mixtures other({2}, 3, 2, random);
  CHECK(contains(message([&] { mixture_plan.step(known.view(), mixtures.views(), other.views()); }),
                 "variance is (2) after the step, (2, 3) before it"));
  CHECK(contains(message([&] { mixture_plan.set_dnas_priors(mixtures.views()); }),
                 "require one variance"));
  em.min_variance = 0.5;
  em.estimates_variance = true;
  MixturePlan estimating({2, 3, 2}, mixtures.centre.shape, em, 1);
  mixtures.variance.values[1] = 0.25;
  CHECK(
      contains(message([&] { estimating.step(known.view(), mixtures.views(), mixtures.views()); }),
               "variance has 0.250000 at [0, 1], expected numbers >= min_variance"));
  em = {};
  em.priors = Priors::dnas;
  MixturePlan with_dnas({2, 3, 2}, mixtures.centre.shape, em, 1);
  CHECK(contains(message([&] { with_dnas.step(known.view(), mixtures.views(), mixtures.views()); }),
                 "require one variance"));

  CHECK(contains(message([] { ClusterPlan<float>({4, 2}, {3}, 1, 1, 1); }), "labels"));
  CHECK(contains(message([] { ClusterPlan<float>({4, 2}, {4}, 0, 1, 1); }), "clusters"));
  CHECK(contains(message([] { ClusterPlan<float>({4, 2}, {4}, 1, 0, 1); }), "width"));
  ClusterPlan<double> clusters(points.shape, {3}, 2, 1, 1);
  Array<Index> labels({3}, 1);
  CHECK(contains(message([&] { clusters.run(known.view(), labels.view()); }),
                 "cluster 0 has no points"));
  labels.values[0] = 2;
  CHECK(contains(message([&] { clusters.run(known.view(), labels.view()); }),
                 "labels has 2 at [0], expected numbers from 0 to 1"));
}

TEST_CASE("two collapse plans run at the same time, each many times") {
  Random random(947);
  const Array<double> few = normal_array<double>({3, 50, 2}, random);
  const Array<float> many = normal_array<float>({6, 33, 4}, random);
  const auto iterate = []<class T>(const Array<T>& points, Scheme scheme) {
    SelfAttentionOptions options;
    options.scheme = scheme;
    options.energy = "gaussian";
    SelfAttentionPlan<T> plan(points.shape, options, 2);
    Array<T> now = points;
    Array<T> next = points;
    for (int n = 0; n < 5; ++n) {
      plan.step(now.view(), next.view());
      std::swap(now, next);
    }
    return now.values;
  };
  const std::vector<double> of_few = iterate(few, Scheme::dnas);
  const std::vector<float> of_many = iterate(many, Scheme::unas);
  std::vector<double> few_again;
  std::vector<float> many_again;
  at_the_same_time([&] { few_again = iterate(few, Scheme::dnas); },
                   [&] { many_again = iterate(many, Scheme::unas); });
  CHECK(same_bits(of_few, few_again));
  CHECK(same_bits(of_many, many_again));
}
