#include "reference/reference_gradient.hpp"

#include <doctest/doctest.h>

#include "gradient_check.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

long double inner(const reference::Matrix& a, const reference::Matrix& b) {
  long double sum = 0;
  for (std::size_t n = 0; n < a.values.size(); ++n) sum += a.values[n] * b.values[n];
  return sum;
}

// Central differences of a smooth function have errors of step² and rounding/step.
constexpr long double difference_step = 1e-6L;
constexpr double gradient_bound = 1e-9;

}  // namespace

// The formulas against differences of the forward reference, which does not share code with them.
TEST_CASE("the reference gradients match differences of the reference") {
  Random random(211);
  for (int n = 0; n < 24; ++n) {
    ProblemOptions options;
    options.queries = random_size(random, 1, 9);
    options.keys = random_size(random, 1, 9);
    options.depth = random_size(random, 1, 4);
    options.key_depth = random_size(random, 1, 4);
    options.v_head_dim = random_size(random, 1, 3);
    options.hidden = 3;
    options.hidden_bias = n % 2 == 0;
    options.mechanism = static_cast<Mechanism>(n % 3);
    options.energy = static_cast<EnergyKind>(random_index(random, 0, 2));
    options.scale = 0.8;
    options.mask = chance(random, 0.5);
    options.bias = chance(random, 0.5);
    if (chance(random, 0.5)) options.softcap = 1.5;
    const Problem<double> problem(options, random);
    const auto grad_out = random_matrix(options.queries, options.v_head_dim, random);
    auto q = problem.reference_q();
    auto k = problem.reference_k();
    auto v = problem.reference_v();
    auto w = problem.reference_w();
    auto w2 = problem.reference_w2();
    auto b1 = problem.reference_b1();
    auto terms = problem.reference_terms();
    for (const Scheme scheme : {Scheme::unas, Scheme::dnas, Scheme::hnas, Scheme::sinkhorn}) {
      SchemeOptions how = fixed(scheme, 0.3, 1 + n % 4);
      reference::Matrix hybrid(1, 1, how.hybrid);
      const auto loss = [&] {
        const auto energies =
            options.mechanism == Mechanism::product    ? reference::energies(options.energy, q, k)
            : options.mechanism == Mechanism::bilinear ? reference::bilinear_energies(q, k, w)
                                                       : reference::mlp_energies(q, k, w, w2, b1);
        const auto weights =
            reference::attend(reference::scores(energies, terms), scheme,
                              static_cast<double>(hybrid(0, 0)), *how.stopping.iterations)
                .weights;
        return inner(grad_out, reference::output(weights, v));
      };
      const auto differences = [&](reference::Matrix& x) {
        return reference::central_differences(x, loss, difference_step).values;
      };
      const auto found = reference_gradients(problem, how, grad_out);
      CAPTURE(n);
      CAPTURE(static_cast<int>(scheme));
      CHECK(gradient_error(differences(q), found.q, 1) <= gradient_bound);
      CHECK(gradient_error(differences(k), found.k, 1) <= gradient_bound);
      CHECK(gradient_error(differences(v), found.v, 1) <= gradient_bound);
      if (options.mechanism != Mechanism::product) {
        CHECK(gradient_error(differences(w), found.w, 1) <= gradient_bound);
      }
      if (options.mechanism == Mechanism::mlp) {
        CHECK(gradient_error(differences(w2), found.w2, 1) <= gradient_bound);
        if (b1.rows > 0) CHECK(gradient_error(differences(b1), found.b1, 1) <= gradient_bound);
      }
      if (terms.bias.rows > 0) {
        CHECK(gradient_error(differences(terms.bias), found.scores, 1) <= gradient_bound);
      }
      if (scheme == Scheme::hnas) {
        CHECK(gradient_error(differences(hybrid), std::vector<double>{found.hybrid}, 1) <= 1e-8);
      }
    }
  }
}
