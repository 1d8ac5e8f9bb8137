#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "attnkit/relu_paths.hpp"
#include "infinity.hpp"
#include "plan_array.hpp"
#include "same_bits.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

// Networks in a batch.
template <class T>
struct Networks {
  std::vector<Array<T>> weights;

  Networks(const ReluShapes& shapes, Random& random) {
    for (const Shape& shape : shapes.weights) weights.push_back(normal_array<T>(shape, random));
  }

  ReluWeights<T> views() {
    ReluWeights<T> all;
    for (Array<T>& one : weights) all.push_back(one.view());
    return all;
  }
  ReluWeights<const T> views() const {
    ReluWeights<const T> all;
    for (const Array<T>& one : weights) all.push_back(one.view());
    return all;
  }
  ReluInputs<T> inputs() const { return {.weights = views()}; }
  ReluInputs<T> inputs(const Networks& gradients) const { return {views(), gradients.views()}; }

  T at(std::size_t layer, Index problem, Index a, Index b) const {
    const Array<T>& one = weights[layer];
    const Index rows = one.shape[one.shape.size() - 2];
    return one.values[static_cast<std::size_t>((problem * rows + a) * one.shape.back() + b)];
  }

  // The product of a path's weights.
  double value(Index problem, const std::vector<Index>& path) const {
    double product = 1;
    for (std::size_t l = 0; l < weights.size(); ++l) {
      product *= static_cast<double>(at(l, problem, path[l], path[l + 1]));
    }
    return product;
  }

  std::vector<double> outputs(Index problem, const std::vector<double>& input) const {
    std::vector<double> x = input;
    for (std::size_t l = 0; l < weights.size(); ++l) {
      std::vector<double> next(static_cast<std::size_t>(weights[l].shape.back()), 0.0);
      for (std::size_t b = 0; b < next.size(); ++b) {
        for (std::size_t a = 0; a < x.size(); ++a) {
          next[b] += x[a] * static_cast<double>(
                                at(l, problem, static_cast<Index>(a), static_cast<Index>(b)));
        }
        if (l + 1 < weights.size()) next[b] = std::max(next[b], 0.0);
      }
      x = std::move(next);
    }
    return x;
  }
};

const std::vector<std::vector<Index>> network_sizes = {{1, 1},    {3, 2},       {3, 4, 2},
                                                       {1, 3, 1}, {2, 5, 3, 2}, {4, 3, 3, 3, 2}};

ReluShapes shapes_of_networks(const Shape& leading, const std::vector<Index>& sizes) {
  ReluShapes shapes;
  for (std::size_t l = 1; l < sizes.size(); ++l) {
    shapes.weights.push_back(join(leading, {sizes[l - 1], sizes[l]}));
  }
  shapes.gradients = shapes.weights;
  return shapes;
}

// Gradients of a loss of the output: of Σ c·output for one input, by differences.
template <class T>
Networks<T> gradients_of(const Networks<T>& networks, Index problems, Random& random) {
  Networks<T> gradients = networks;
  const std::vector<double> input = [&] {
    std::vector<double> made(static_cast<std::size_t>(*(networks.weights.front().shape.end() - 2)));
    std::normal_distribution<double> normal;
    for (double& x : made) x = normal(random);
    return made;
  }();
  for (Index problem = 0; problem < problems; ++problem) {
    for (std::size_t l = 0; l < networks.weights.size(); ++l) {
      const auto size = static_cast<Index>(networks.weights[l].values.size()) / problems;
      for (Index n = 0; n < size; ++n) {
        const auto at = static_cast<std::size_t>(problem * size + n);
        Networks<T> moved = networks;
        const auto loss = [&](double by) {
          moved.weights[l].values[at] = networks.weights[l].values[at] + static_cast<T>(by);
          double sum = 0;
          for (const double out : moved.outputs(problem, input)) sum += 0.5 * out * out;
          return sum;
        };
        constexpr double step = 0x1p-10;
        gradients.weights[l].values[at] = static_cast<T>((loss(step) - loss(-step)) / (2 * step));
      }
    }
  }
  return gradients;
}

}  // namespace

TEST_CASE_TEMPLATE("plans of ReLU paths: values are products, and lead back to the weights", T,
                   float, double) {
  Random random(971);
  for (const std::vector<Index>& sizes : network_sizes) {
    CAPTURE(sizes);
    const Networks<T> networks(shapes_of_networks({2, 2}, sizes), random);
    ReluInputs<T> in = networks.inputs();
    ReluPathPlan<T> plan(shapes_of(in), {}, 1);
    ReluPathPlan<T> threads(shapes_of(in), {}, 9);
    for (const bool largest : {false, true}) {
      in.skeletons = largest ? plan.largest_skeletons(in) : plan.cyclic_skeletons();
      const std::vector<ReluSkeleton>& skeletons = in.skeletons;
      REQUIRE(skeletons.size() == 4);
      Array<T> values(plan.values_shape(), T{7}), again(plan.values_shape(), T{7});
      plan.run(in, {.values = values.view()});
      threads.run(in, {.values = again.view()});
      CHECK(same_bits(values.values, again.values));
      const Index rank = values.shape.back();
      const Index hidden = plan.hidden_shape().back();
      Array<T> in_weights(plan.hidden_shape());
      const double rounding = std::numeric_limits<T>::epsilon();
      for (Index problem = 0; problem < 4; ++problem) {
        const ReluSkeleton& skeleton = skeletons[static_cast<std::size_t>(problem)];
        std::vector<std::vector<Index>> paths;
        for (Index n = 0; n < rank; ++n) {
          paths.push_back(plan.path(skeleton, n));
          const double product = networks.value(problem, paths.back());
          const double found = values.values[static_cast<std::size_t>(problem * rank + n)];
          CHECK(std::abs(found - product) <= 4 * rounding * std::abs(product));
        }
        std::sort(paths.begin(), paths.end());
        CHECK(std::adjacent_find(paths.begin(), paths.end()) == paths.end());
        Index node = 0;
        for (std::size_t l = 1; l + 1 < sizes.size(); ++l) {
          for (Index b = 0; b < sizes[l]; ++b, ++node) {
            in_weights.values[static_cast<std::size_t>(problem * hidden + node)] =
                networks.at(l - 1, problem, skeleton.in_of(node), b);
          }
        }
      }
      Networks<T> back = networks;
      for (Array<T>& one : back.weights) std::fill(one.values.begin(), one.values.end(), T{7});
      plan.compose({values.view(), in_weights.view(), skeletons}, back.views());
      const double limit = 4 * static_cast<double>(sizes.size()) * rounding;
      for (std::size_t l = 0; l < back.weights.size(); ++l) {
        for (std::size_t n = 0; n < back.weights[l].values.size(); ++n) {
          const double was = networks.weights[l].values[n];
          CHECK(std::abs(back.weights[l].values[n] - was) <= limit * std::abs(was));
        }
      }
    }
  }
}

TEST_CASE("plans of ReLU paths: rescaled networks follow the same trajectory") {
  Random random(972);
  int moved = 0;
  for (const std::vector<Index>& sizes : network_sizes) {
    CAPTURE(sizes);
    const ReluShapes shapes = shapes_of_networks({2}, sizes);
    ReluPathPlan<double> plan(shapes, {.rate = 1e-3}, 2);
    Networks<double> networks(shapes, random);
    Networks<double> scaled = networks;
    Networks<double> gradients = gradients_of(networks, 2, random);
    Networks<double> of_scaled = gradients;
    // Powers of two, by hidden node.
    Index node = 0;
    for (std::size_t l = 1; l + 1 < sizes.size(); ++l) {
      for (Index b = 0; b < sizes[l]; ++b, ++node) {
        const double factor = std::ldexp(1.0, static_cast<int>(node % 5) - 2);
        for (Index problem = 0; problem < 2; ++problem) {
          const auto scale = [&](Networks<double>& all, std::size_t layer, Index row, Index col,
                                 double by) {
            Array<double>& one = all.weights[layer];
            const Index rows = one.shape[1];
            one.values[static_cast<std::size_t>((problem * rows + row) * one.shape[2] + col)] *= by;
          };
          for (Index a = 0; a < sizes[l - 1]; ++a) {
            scale(scaled, l - 1, a, b, factor);
            scale(of_scaled, l - 1, a, b, 1 / factor);
          }
          for (Index c = 0; c < sizes[l + 1]; ++c) {
            scale(scaled, l, b, c, 1 / factor);
            scale(of_scaled, l, b, c, factor);
          }
        }
      }
    }
    ReluInputs<double> in = networks.inputs(gradients);
    in.skeletons = plan.largest_skeletons(in);
    ReluInputs<double> in_scaled = scaled.inputs(of_scaled);
    in_scaled.skeletons = in.skeletons;
    const Networks<double> before = networks;
    const auto found = plan.run(in, {.weights = networks.views()});
    plan.run(in_scaled, {.weights = scaled.views()});
    REQUIRE(found.size() == 2);
    Array<double> values(plan.values_shape()), same(plan.values_shape());
    plan.run(in, {.values = values.view()});
    plan.run(in_scaled, {.values = same.view()});
    CHECK(same_bits(values.values, same.values));
    for (const ReluStepSummary& summary : found) CHECK(summary.inconsistency <= 1e-3);
    moved += same_bits(networks.weights.back().values, before.weights.back().values) ? 0 : 1;
  }
  // All nodes of a network may be off.
  CHECK(moved >= 4);
}

TEST_CASE("plans of ReLU paths: Adam's rules, in paths and on weights, over batches") {
  Random random(974);
  for (const std::vector<Index>& sizes : network_sizes) {
    CAPTURE(sizes);
    const ReluShapes shapes = shapes_of_networks({2}, sizes);
    const Networks<double> start(shapes, random);
    const Networks<double> gradients = gradients_of(start, 2, random);
    const auto skeletons = ReluPathPlan<double>(shapes, {}, 1).largest_skeletons(start.inputs());
    for (const Optimizer optimizer :
         {Optimizer::sgd, Optimizer::adam, Optimizer::si_sgd, Optimizer::si_adam}) {
      CAPTURE(static_cast<int>(optimizer));
      const bool moving = optimizer == Optimizer::adam || optimizer == Optimizer::si_adam;
      const bool in_paths = optimizer == Optimizer::si_sgd || optimizer == Optimizer::si_adam;
      const StepOptions options{.optimizer = optimizer};
      ReluPathPlan<double> plan(shapes, options, 1), threads(shapes, options, 5);
      Networks<double> networks = start, same = start;
      Array<double> m(plan.moments_shape()), v = m, other_m = m, other_v = m;
      // The first step is from one network to another, the later ones are in place.
      ReluInputs<double> in = start.inputs(gradients);
      if (in_paths) in.skeletons = skeletons;
      ReluInputs<double> in_same = same.inputs(gradients);
      in_same.skeletons = skeletons;
      std::vector<std::vector<double>> by_hand;
      std::vector<double> means(m.values.size()), squares(m.values.size());
      for (const Array<double>& one : start.weights) by_hand.push_back(one.values);
      for (Index number = 1; number <= 3; ++number) {
        plan.set_step(number, options.rate);
        threads.set_step(number, options.rate);
        const auto found = plan.run(in, {networks.views(), m.view(), v.view()});
        in.weights = std::as_const(networks).views();
        threads.run(in_same, {same.views(), other_m.view(), other_v.view()});
        REQUIRE(found.size() == 2);
        if (!in_paths) CHECK(found[0].least_ratio > found[0].largest_ratio);
        // In plain loops, on the weights.
        Index before = 0;
        for (std::size_t l = 0; !in_paths && l < by_hand.size(); ++l) {
          const std::vector<double>& g = gradients.weights[l].values;
          const auto size = static_cast<Index>(g.size()) / 2;
          for (std::size_t n = 0; n < g.size(); ++n) {
            const Index problem = static_cast<Index>(n) / size;
            const auto at = static_cast<std::size_t>(problem * plan.moments_shape().back() +
                                                     before + static_cast<Index>(n) % size);
            double step = g[n];
            if (moving) {
              const auto t = static_cast<double>(number);
              means[at] = 0.9 * means[at] + 0.1 * g[n];
              squares[at] = 0.999 * squares[at] + 0.001 * g[n] * g[n];
              step = means[at] / (1 - std::pow(0.9, t)) /
                     (std::sqrt(squares[at] / (1 - std::pow(0.999, t))) + 1e-8);
              CHECK(m.values[at] == doctest::Approx(means[at]));
              CHECK(v.values[at] == doctest::Approx(squares[at]));
            }
            by_hand[l][n] -= 1e-3 * step;
            CHECK(std::abs(networks.weights[l].values[n] - by_hand[l][n]) <= 1e-14);
          }
          before += size;
        }
      }
      for (std::size_t l = 0; l < networks.weights.size(); ++l) {
        CHECK(same_bits(networks.weights[l].values, same.weights[l].values));
      }
      CHECK(same_bits(m.values, other_m.values));
      CHECK(same_bits(v.values, other_v.values));
      if (optimizer != Optimizer::si_adam) continue;
      // The second network alone has the same values of paths.
      const ReluShapes of_network = shapes_of_networks({}, sizes);
      ReluPathPlan<double> alone(of_network, options, 1);
      Networks<double> one(of_network, random), of_one = one;
      for (std::size_t l = 0; l < one.weights.size(); ++l) {
        const std::size_t size = one.weights[l].values.size();
        for (std::size_t n = 0; n < size; ++n) {
          one.weights[l].values[n] = start.weights[l].values[size + n];
          of_one.weights[l].values[n] = gradients.weights[l].values[size + n];
        }
      }
      Array<double> own_m(alone.moments_shape()), own_v = own_m;
      ReluInputs<double> in_one = one.inputs(of_one);
      in_one.skeletons = {skeletons[1]};
      for (Index number = 1; number <= 3; ++number) {
        alone.set_step(number, options.rate);
        alone.run(in_one, {one.views(), own_m.view(), own_v.view()});
      }
      for (std::size_t l = 0; l < one.weights.size(); ++l) {
        const std::size_t size = one.weights[l].values.size();
        CHECK(std::equal(one.weights[l].values.begin(), one.weights[l].values.end(),
                         networks.weights[l].values.begin() + static_cast<std::ptrdiff_t>(size)));
      }
    }
  }
}

TEST_CASE("plans of ReLU paths refuse shapes, skeletons and options") {
  const auto message = [](const auto& body) { return std::string(thrown_error(body).what()); };
  const auto made = [&](const std::vector<Shape>& weights, const StepOptions& options = {},
                        const std::vector<Shape>& gradients = {}) {
    return message([&] { ReluPathPlan<double>({weights, gradients}, options, 1); });
  };
  CHECK(contains(made({}), "at least one layer"));
  CHECK(contains(made({{3, 0}, {0, 2}}), "layer 1 has size 0"));
  CHECK(contains(made({{3, 4}, {3, 2}}), "weights 2 has the last axes (3, 2), expected (4, 2)"));
  CHECK(contains(made({{2, 3, 4}, {3, 4, 2}}), "weights 2 has the leading axes (3)"));
  CHECK(contains(made({{3, 4}, {4, 2}}, {}, {{3, 4}}), "1 matrices of gradients, expected 2"));
  CHECK(contains(made({{3, 4}}, {}, {{4, 3}}), "gradients 1 has the last axes (4, 3)"));
  CHECK(contains(made({{3, 4}}, {.optimizer = Optimizer::si_sgd_printed}),
                 "si_sgd_printed is no optimizer of ReLU networks"));
  CHECK(contains(made({{3, 4}}, {.optimizer = Optimizer::adam, .beta2 = 1}), "beta2"));
  CHECK(contains(made({{3, 4}}, {.rate = 0}), "rate"));
  CHECK(thrown_error([] { ReluPathPlan<double>({{{3, 2}}}, {}, 0); }).failure() == Failure::usage);
  const Index many = Index{1} << 40;
  CHECK(thrown_error([&] {
          ReluPathPlan<double>({{{many, many}}}, {}, 1);
        }).failure() == Failure::input);
  Random random(973);
  const ReluShapes shapes = shapes_of_networks({2}, {2, 3, 1});
  ReluPathPlan<double> plan(shapes, {}, 1);
  CHECK(plan.layers() == 2);
  CHECK(plan.weights_shape(1) == Shape{2, 2, 3});
  CHECK(plan.values_shape() == Shape{2, 6});
  CHECK(plan.hidden_shape() == Shape{2, 3});
  CHECK(plan.workspace_bytes() > 0);
  CHECK(contains(message([&] { plan.weights_shape(3); }), "no W_3"));
  CHECK(contains(message([&] { plan.set_step(1, 0); }), "rate"));
  Networks<double> networks(shapes, random);
  const Networks<double> gradients = networks;
  ReluInputs<double> in = networks.inputs(gradients);
  in.skeletons = plan.cyclic_skeletons();
  CHECK(contains(message([&] { plan.path(in.skeletons[0], 6); }), "basis path 6"));
  Array<double> values(plan.values_shape());
  ReluOutputs<double> out{.values = values.view()};
  const auto run = [&](ReluPathPlan<double>& with) { return message([&] { with.run(in, out); }); };
  in.skeletons[1].in[2] = 2;
  CHECK(contains(run(plan), "the skeleton of problem [1]"));
  in.skeletons.pop_back();
  CHECK(contains(run(plan), "1 skeletons, expected 2"));
  in.skeletons = plan.cyclic_skeletons();
  networks.weights[1].values[4] = infinity;
  CHECK(contains(run(plan), "weights 2 has inf at [1, 1, 0]"));
  networks.weights[1].values[4] = 1;
  plan.run(in, out);
  out.values.shape = {2, 5};
  CHECK(contains(run(plan), "values is (2, 5)"));
  out = {.weights = networks.views()};
  ReluPathPlan<double> adam(shapes, {.optimizer = Optimizer::adam}, 1);
  CHECK(contains(run(adam), "the first moment"));
  ReluPathPlan<double> descent(shapes, {.momentum = 0.9}, 1);
  CHECK(contains(run(descent), "the first moment"));
  out.weights.pop_back();
  CHECK(contains(run(plan), "1 matrices of weights, expected 2"));
  out.weights = networks.views();
  in.gradients.pop_back();
  CHECK(contains(run(plan), "1 matrices of gradients, expected 2"));
  in.gradients.clear();
  ReluPathPlan<double> alone(shapes_of(in), {}, 1);
  CHECK(contains(run(alone), "without gradients"));
  // In place without all leading axes.
  in = networks.inputs(gradients);
  in.weights[0].shape = {2, 3};
  ReluPathPlan<double> shared(shapes_of(in), {}, 1);
  in.skeletons = shared.cyclic_skeletons();
  CHECK(contains(run(shared), "weights 1 is (2, 3), expected (2, 2, 3)"));
}
