// How far is softmax attention from exact inference? Attention is the first order in α of
// Fenchel-dual inference: p_i ∝ u_i exp(α⟨t_i,z⟩) uses λ = αz instead of the exact λ, which
// maximises the dual. For growing α, prints the differences between the two p and between the two
// means ĥ = Σ p_i t_i, and the duality gap that certifies the exact solution. Exits with 1 if the
// gap is too large, if the difference does not shrink with α, or if the second order is not nearer
// than the first.

#include <attnkit/dual.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

namespace {

constexpr attn::Index templates = 32;
constexpr attn::Index queries = 8;
constexpr attn::Index depth = 4;

std::vector<double> normal(attn::Index count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> distribution;
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = distribution(random);
  return values;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t n = 0; n < a.size(); ++n) largest = std::max(largest, std::abs(a[n] - b[n]));
  return largest;
}

}  // namespace

int main() {
  const std::vector<double> t = normal(templates * depth, 1);
  const std::vector<double> z = normal(queries * depth, 2);
  attn::DualInputs in;  // without a preference, u is the same for all templates
  in.templates = {t.data(), {templates, depth}};
  in.evidence = {z.data(), {queries, depth}};

  const attn::Shape of_p = {queries, templates};
  const attn::Shape of_h = {queries, depth};
  std::vector<double> p(queries * templates), softmax(p);
  std::vector<double> h(queries * depth), first_h(h), second_h(h);
  attn::DualOutputs out;
  out.p = {p.data(), of_p};
  out.h = {h.data(), of_h};
  out.first_order_p = {softmax.data(), of_p};
  out.first_order_h = {first_h.data(), of_h};
  out.second_order_h = {second_h.data(), of_h};

  std::printf("%8s %14s %14s %14s %10s\n", "alpha", "p - softmax", "h - first", "h - second",
              "gap");
  bool as_expected = true;
  double smaller_alpha = 0;
  for (const double alpha : {0.001, 0.01, 0.1, 1.0}) {
    attn::DualPlanOptions options;
    options.alpha = alpha;
    attn::DualPlan plan(attn::shapes_of(in), options, 2);
    const std::vector<attn::DualSummary> summaries = plan.run(in, out);
    double gap = 0;
    for (const attn::DualSummary& summary : summaries) {
      as_expected = as_expected && summary.status == attn::DualStatus::converged;
      gap = std::max(gap, summary.gap);
    }
    const double of_softmax = largest_difference(p, softmax);
    const double first = largest_difference(h, first_h);
    const double second = largest_difference(h, second_h);
    std::printf("%8.3g %14.2e %14.2e %14.2e %10.1e\n", alpha, of_softmax, first, second, gap);
    as_expected = as_expected && gap <= 1e-9 && of_softmax > smaller_alpha && second < first;
    // The error of the first-order λ is of order α².
    as_expected = as_expected && (alpha > 0.01 || first <= 10 * alpha * alpha);
    smaller_alpha = of_softmax;
  }
  return as_expected ? 0 : 1;
}
