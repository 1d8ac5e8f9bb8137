#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "attnkit/dual.hpp"
#include "fenchel/closed_forms.hpp"
#include "fenchel/dual.hpp"
#include "fenchel/radius.hpp"
#include "infinity.hpp"
#include "plan_array.hpp"
#include "same_bits.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

struct DualSetting {
  Shape templates, evidence, preference, cost;
  DualPlanOptions options = {};
};

struct DualArrays {
  DualSetting setting;
  Array<double> templates, evidence, preference, cost;

  DualArrays(const DualSetting& given, Random& random)
      : setting(given),
        templates(normal_array<double>(given.templates, random)),
        evidence(normal_array<double>(given.evidence, random)),
        preference(normal_array<double>(given.preference, random)),
        cost(normal_array<double>(given.cost, random)) {
    for (double& u : preference.values) u *= u;
    for (double& m : cost.values) m *= m;
  }

  DualInputs inputs() const {
    DualInputs in{templates.view(), evidence.view(), {}, {}};
    if (!setting.preference.empty()) in.preference = preference.view();
    if (!setting.cost.empty()) in.cost = cost.view();
    return in;
  }
};

struct FoundDual {
  Array<double> lambda, h, p, first_h, first_p, second_h;
  std::vector<DualSummary> summaries;

  explicit FoundDual(const DualPlan& plan)
      : lambda(plan.lambda_shape(), 7),
        h(lambda),
        p(plan.p_shape(), 7),
        first_h(lambda),
        first_p(p),
        second_h(lambda) {}

  DualOutputs outputs() {
    return {lambda.view(), h.view(), p.view(), first_h.view(), first_p.view(), second_h.view()};
  }
  bool operator==(const FoundDual& other) const {
    return same_bits(lambda.values, other.lambda.values) && same_bits(h.values, other.h.values) &&
           same_bits(p.values, other.p.values) && same_bits(first_h.values, other.first_h.values) &&
           same_bits(first_p.values, other.first_p.values) &&
           same_bits(second_h.values, other.second_h.values);
  }
};

FoundDual run_plan(const DualArrays& arrays, int threads) {
  DualPlan plan(shapes_of(arrays.inputs()), arrays.setting.options, threads);
  FoundDual found(plan);
  found.summaries = plan.run(arrays.inputs(), found.outputs());
  return found;
}

void check(const DualSetting& setting, Random& random) {
  const DualArrays arrays(setting, random);
  const FoundDual found = run_plan(arrays, 1);
  CHECK((found == run_plan(arrays, 3)));
  const Shape leading = leading_axes(found.p.shape, 2);
  const Index queries = found.p.shape[leading.size()];
  const Index n = found.p.shape.back();
  const Index d = found.lambda.shape.back();
  const std::vector<double> ones(static_cast<std::size_t>(n), 1.0);
  REQUIRE(static_cast<Index>(found.summaries.size()) == element_count(leading) * queries);
  for (Index problem = 0; problem < element_count(leading); ++problem) {
    CAPTURE(problem);
    DualProblem made;
    made.templates = arrays.templates.matrix(problem, leading);
    made.evidence = arrays.evidence.matrix(problem, leading);
    made.preference = {ones.data(), 1, n};
    if (setting.preference.size() == 1) {
      made.preference = {arrays.preference.values.data(), 1, n};
    } else if (!setting.preference.empty()) {
      made.preference = arrays.preference.matrix(problem, leading);
    }
    made.alpha = setting.options.alpha;
    if (!setting.cost.empty()) {
      made.transport = TransportCost{arrays.cost.matrix(problem, leading), setting.options.gamma};
    }
    Array<double> lambda({queries, d}), h({queries, d}), p({queries, n});
    const DualResults results = {{lambda.values.data(), queries, d},
                                 {h.values.data(), queries, d},
                                 {p.values.data(), queries, n}};
    const auto& radius = setting.options.square_radius;
    const auto summaries = radius ? solve_radius(made, *radius, setting.options.solver, 1, results)
                                  : solve_dual(made, setting.options.solver, 1, results);
    CHECK(same_bits(found.lambda.values.data() + problem * queries * d, lambda.values.data(),
                    queries * d));
    CHECK(same_bits(found.h.values.data() + problem * queries * d, h.values.data(), queries * d));
    CHECK(same_bits(found.p.values.data() + problem * queries * n, p.values.data(), queries * n));
    Array<double> first_h({queries, d}), first_p({queries, n}), second_h({queries, d});
    const ClosedForms forms = {{first_h.values.data(), queries, d},
                               {first_p.values.data(), queries, n},
                               {second_h.values.data(), queries, d}};
    std::vector<double> alphas;
    for (const DualSummary& summary : summaries) {
      alphas.push_back(radius ? summary.alpha : made.alpha);
    }
    closed_forms(made, alphas, 1, forms);
    CHECK(same_bits(found.first_h.values.data() + problem * queries * d, first_h.values.data(),
                    queries * d));
    CHECK(same_bits(found.first_p.values.data() + problem * queries * n, first_p.values.data(),
                    queries * n));
    CHECK(same_bits(found.second_h.values.data() + problem * queries * d, second_h.values.data(),
                    queries * d));
    for (Index q = 0; q < queries; ++q) {
      const DualSummary& summary = found.summaries[static_cast<std::size_t>(problem * queries + q)];
      const DualSummary& expected = summaries[static_cast<std::size_t>(q)];
      CHECK(summary.status == expected.status);
      CHECK(summary.iterations == expected.iterations);
      CHECK(summary.gap == expected.gap);
      CHECK(summary.primal == expected.primal);
      CHECK(summary.alpha == expected.alpha);
      CHECK(summary.at_limit == expected.at_limit);
      CHECK(summary.square_distance == expected.square_distance);
      if (radius) CHECK(summary.square_distance <= *radius * (1 + 1e-8));
    }
  }
}

}  // namespace

TEST_CASE("dual plans give the bits of each problem's own solution") {
  Random random(911);
  for (const auto& size : {std::pair<Index, Index>{1, 1}, {1, 4}, {5, 1}, {17, 3}, {9, 33}}) {
    const Index n = size.first;
    const Index d = size.second;
    CAPTURE(n);
    CAPTURE(d);
    DualSetting setting;
    setting.templates = {n, d};
    setting.evidence = {3, 5, d};
    setting.options.alpha = 0.7;
    check(setting, random);
    setting.templates = {2, 1, n, d};
    setting.preference = {n};
    check(setting, random);
    setting.preference = {3, 1, n};
    check(setting, random);
    setting.preference = {5, n};
    check(setting, random);
    // All evidence is within the radius: p = u.
    setting.options = {};
    setting.options.square_radius = 1e3;
    check(setting, random);
    setting.options.square_radius.reset();
    setting.options.alpha = 0.7;
    setting.cost = {2, 1, n, n};
    setting.options.gamma = 0.5;
    check(setting, random);
  }
}

TEST_CASE("dual plans without templates, queries or problems") {
  Random random(912);
  DualSetting setting;
  setting.templates = {4, 2};
  setting.evidence = {0, 2};
  const FoundDual none = run_plan(DualArrays(setting, random), 2);
  CHECK(none.summaries.empty());
  setting.evidence = {0, 3, 2};
  CHECK(run_plan(DualArrays(setting, random), 2).summaries.empty());
  setting.templates = {1, 2};
  setting.evidence = {1, 2};
  setting.preference = {1};
  DualArrays arrays(setting, random);
  arrays.preference.values[0] = 0;
  const FoundDual empty = run_plan(arrays, 1);
  CHECK(empty.summaries.front().status == DualStatus::empty);
  for (const double value : empty.lambda.values) CHECK(value == 0);
}

TEST_CASE("dual plans: at small alpha the exact p is softmax to first order") {
  Random random(913);
  DualSetting setting;
  setting.templates = {6, 3};
  setting.evidence = {4, 3};
  setting.options.alpha = 1e-4;
  const FoundDual found = run_plan(DualArrays(setting, random), 1);
  for (std::size_t n = 0; n < found.p.values.size(); ++n) {
    CHECK(found.p.values[n] == doctest::Approx(found.first_p.values[n]).epsilon(1e-6));
    CHECK(found.p.values[n] != found.first_p.values[n]);
  }
}

TEST_CASE("dual plans with a radius find the alpha at which the mean is that far") {
  Random random(916);
  DualSetting setting;
  setting.templates = {9, 3};
  setting.evidence = {6, 3};
  setting.options.alpha = 0.8;
  DualArrays arrays(setting, random);
  for (double& z : arrays.evidence.values) z *= 0.3;
  const FoundDual known = run_plan(arrays, 1);
  for (Index q = 0; q < 6; ++q) {
    // ‖μ + z − ĥ‖ = ‖λ‖/α
    double square = 0;
    for (Index c = 0; c < 3; ++c) {
      const double part = known.lambda.values[static_cast<std::size_t>(3 * q + c)] / 0.8;
      square += part * part;
    }
    DualArrays one = arrays;
    one.setting.options = {};
    one.setting.options.square_radius = square;
    const FoundDual found = run_plan(one, 2);
    const DualSummary& summary = found.summaries[static_cast<std::size_t>(q)];
    CHECK(summary.status == DualStatus::converged);
    CHECK(summary.alpha == doctest::Approx(0.8).epsilon(1e-8));
    CHECK(summary.square_distance == doctest::Approx(square).epsilon(1e-9));
    for (std::size_t n = 0; n < 9; ++n) {
      const std::size_t at = static_cast<std::size_t>(q) * 9 + n;
      CHECK(std::abs(found.p.values[at] - known.p.values[at]) <= 1e-9);
      CHECK(std::abs(found.first_p.values[at] - known.first_p.values[at]) <= 1e-8);
    }
  }
}

TEST_CASE("dual plans refuse shapes, numbers and options") {
  const auto message = [](const auto& body) { return std::string(thrown_error(body).what()); };
  const auto plan_of = [](const DualShapes& shapes, const DualPlanOptions& options = {},
                          int threads = 1) { DualPlan(shapes, options, threads); };
  DualShapes shapes;
  CHECK(contains(message([&] { plan_of(shapes); }), "expected templates and evidence"));
  shapes.templates = Shape{2, 5, 3};
  shapes.evidence = Shape{4, 2};
  CHECK(contains(message([&] { plan_of(shapes); }), "evidence has the last axes (4, 2)"));
  shapes.evidence = Shape{3, 4, 3};
  CHECK(contains(message([&] { plan_of(shapes); }), "do not broadcast"));
  shapes.evidence = Shape{4, 3};
  shapes.preference = Shape{3, 5};
  CHECK(contains(message([&] { plan_of(shapes); }), "preference has the last axes (3, 5)"));
  shapes.preference = Shape{1};
  CHECK(contains(message([&] { plan_of(shapes); }), "preference has the last axes (1, 1)"));
  shapes.preference = Shape{4, 5};
  shapes.cost = Shape{5, 4};
  CHECK(contains(message([&] { plan_of(shapes); }), "cost has the last axes (5, 4)"));
  shapes.cost = Shape{5, 5};
  plan_of(shapes);
  CHECK(thrown_error([&] { plan_of(shapes, {}, 0); }).failure() == Failure::usage);
  for (const double wrong : {0.0, -1.0, infinity, std::nan("")}) {
    DualPlanOptions options;
    options.alpha = wrong;
    CHECK(contains(message([&] { plan_of(shapes, options); }), "alpha is"));
    options = {};
    options.gamma = wrong;
    CHECK(contains(message([&] { plan_of(shapes, options); }), "gamma is"));
    options = {};
    options.square_radius = wrong;
    CHECK(contains(message([&] { plan_of(shapes, options); }), "square_radius is"));
    options = {};
    options.solver.tolerance = wrong;
    CHECK(contains(message([&] { plan_of(shapes, options); }), "tolerance is"));
  }
  DualPlanOptions options;
  options.solver.max_iterations = 0;
  CHECK(contains(message([&] { plan_of(shapes, options); }), "max_iterations"));
  options = {};
  options.square_radius = 1;
  CHECK(contains(message([&] { plan_of(shapes, options); }), "requires the divergence KL"));
  shapes.cost.reset();
  options.alpha = 2;
  CHECK(contains(message([&] { plan_of(shapes, options); }), "alpha has no effect"));

  Random random(914);
  DualSetting setting;
  setting.templates = {2, 5, 3};
  setting.evidence = {4, 3};
  setting.preference = {5};
  DualArrays arrays(setting, random);
  DualPlan plan(shapes_of(arrays.inputs()), {}, 1);
  DualInputs in = arrays.inputs();
  in.evidence.shape = {3, 4};
  CHECK(contains(message([&] { plan.run(in, {}); }), "evidence is (3, 4)"));
  in = arrays.inputs();
  in.preference = {};
  CHECK(contains(message([&] { plan.run(in, {}); }), "preference is absent"));
  Array<double> p({4, 5});
  DualOutputs out;
  out.p = p.view();
  CHECK(contains(message([&] { plan.run(arrays.inputs(), out); }),
                 "the output p is (4, 5), expected (2, 4, 5)"));
  arrays.templates.values[16] = infinity;
  const Error error = thrown_error([&] { plan.run(arrays.inputs(), {}); });
  CHECK(error.failure() == Failure::input);
  CHECK(contains(error.what(), "problem [1]"));
  arrays.templates.values[16] = 1;
  arrays.preference.values[2] = -1;
  CHECK(thrown_error([&] { plan.run(arrays.inputs(), {}); }).failure() == Failure::input);
  arrays.preference.values[2] = 1;
  CHECK(plan.run(arrays.inputs(), {}).size() == 8);
}

TEST_CASE("arrays in float32 are solved as the same numbers in float64") {
  Random random(915);
  DualSetting setting;
  setting.templates = {2, 5, 3};
  setting.evidence = {4, 3};
  setting.preference = {5};
  for (const Shape& cost : {Shape(), Shape{5, 5}}) {
    setting.cost = cost;
    DualArrays arrays(setting, random);
    const auto narrow = [](Array<double>& from) {
      Array<float> made(from.shape);
      std::transform(from.values.begin(), from.values.end(), made.values.begin(),
                     [](double x) { return static_cast<float>(x); });
      std::copy(made.values.begin(), made.values.end(), from.values.begin());
      return made;
    };
    const Array<float> templates = narrow(arrays.templates), evidence = narrow(arrays.evidence);
    const Array<float> preference = narrow(arrays.preference), costs = narrow(arrays.cost);
    DualOperands<float> in{templates.view(), evidence.view(), preference.view(), {}};
    if (!cost.empty()) in.cost = costs.view();
    DualPlan plan(shapes_of(in), {}, 2);
    FoundDual wide(plan), found(plan);
    wide.summaries = plan.run(arrays.inputs(), wide.outputs());
    found.summaries = plan.run(in, found.outputs());
    CHECK(found.lambda.values == wide.lambda.values);
    CHECK(found.p.values == wide.p.values);
    CHECK(found.summaries.front().gap == wide.summaries.front().gap);
  }
  DualOperands<float> none{{}, {}, {}, {}};
  DualPlan plan(shapes_of(DualArrays(setting, random).inputs()), {}, 1);
  CHECK(contains(thrown_error([&] { plan.run(none, {}); }).what(), "templates is absent"));
}

TEST_CASE("two dual plans run at the same time, each many times") {
  Random random(915);
  DualSetting first;
  first.templates = {30, 5};
  first.evidence = {4, 20, 5};
  DualSetting second;
  second.templates = {3, 12, 4};
  second.evidence = {7, 4};
  second.cost = {12, 12};
  const DualArrays kl(first, random);
  const DualArrays transport(second, random);
  const FoundDual of_kl = run_plan(kl, 2);
  const FoundDual of_transport = run_plan(transport, 2);
  const auto repeat = [](const DualArrays& arrays, const FoundDual& expected, bool& same) {
    DualPlan plan(shapes_of(arrays.inputs()), arrays.setting.options, 2);
    for (int n = 0; n < 3; ++n) {
      FoundDual found(plan);
      plan.run(arrays.inputs(), found.outputs());
      same = same && found == expected;
    }
  };
  bool same_kl = true;
  bool same_transport = true;
  at_the_same_time([&] { repeat(kl, of_kl, same_kl); },
                   [&] { repeat(transport, of_transport, same_transport); });
  CHECK(same_kl);
  CHECK(same_transport);
}
