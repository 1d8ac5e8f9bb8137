// Optimal transport between two point clouds: from 400 points of a ring to 300 points of a disc.
// Moving a unit of mass costs the squared distance. Prints the cost of the plan and its
// certificate: the optimum lies between dual and dual + gap. Then the exact cost, without
// regularisation, and Sinkhorn's divergence of the clouds. No 400 × 300 array is made. Exits with 1
// if a certificate does not hold or the plan does not meet its marginals.

#include <attnkit/transport.hpp>

#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

namespace {

constexpr attn::Index sources = 400;
constexpr attn::Index targets = 300;

// Points (count, 2) whose distance to (centre, 0) is between `inner` and `outer`.
std::vector<double> ring(attn::Index count, double centre, double inner, double outer,
                         unsigned seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> angle(0, 6.283185307179586);
  std::uniform_real_distribution<double> radius(inner, outer);
  std::vector<double> points;
  for (attn::Index n = 0; n < count; ++n) {
    const double a = angle(random);
    const double r = radius(random);
    points.push_back(centre + r * std::cos(a));
    points.push_back(r * std::sin(a));
  }
  return points;
}

}  // namespace

int main() {
  const std::vector<double> x = ring(sources, 0, 1.5, 2, 1);
  const std::vector<double> y = ring(targets, 1, 0, 1, 2);
  // All points of a cloud have the same mass, and the mass of each cloud is 1.
  attn::TransportInputs<double> in;
  in.x = {x.data(), {sources, 2}};
  in.y = {y.data(), {targets, 2}};

  attn::TransportOptions options;
  options.epsilon = 0.05;
  options.solver.stopping.tolerance = 1e-9;
  attn::TransportPlan<double> plan(attn::shapes_of(in), options, 2);

  std::vector<double> f(sources), g(targets), arrives(targets);
  attn::TransportOutputs<double> out;
  out.row_potential = {f.data(), {sources}};
  out.col_potential = {g.data(), {targets}};
  out.col_sum = {arrives.data(), {targets}};
  const attn::TransportSummary summary = plan.run(in, out);
  const attn::TransportProblem& found = summary.problems.front();
  std::printf("mean squared distance moved: %.6f, after %lld iterations\n", found.value,
              static_cast<long long>(found.iterations));
  std::printf("optimum, entropy included: from %.9f to %.9f, gap %.1e\n", found.dual,
              found.dual + found.gap, found.gap);

  // The mass that source 0 sends to each target follows from the potentials: π_ij = exp((s_ij −
  // g_j) − f_i) with s_ij = −|x_i − y_j|²/ε. Its sum is the mass of the source.
  double sent = 0;
  for (attn::Index j = 0; j < targets; ++j) {
    const auto at = static_cast<std::size_t>(j);
    const double cost = std::pow(x[0] - y[2 * at], 2) + std::pow(x[1] - y[2 * at + 1], 2);
    sent += std::exp((-cost / options.epsilon - g[at]) - f[0]);
  }
  double worst = std::abs(sent * sources - 1);
  for (const double mass : arrives) worst = std::fmax(worst, std::abs(mass * targets - 1));
  std::printf("largest relative error of a marginal: %.1e\n", worst);

  const bool certified = summary.status() == attn::SolveStatus::converged && found.gap >= 0 &&
                         found.gap <= 1e-6 && found.primal >= found.dual - 1e-6 &&
                         found.primal <= found.dual + found.gap + 1e-6;

  attn::TransportOptions exact;
  exact.exact.emplace();
  const attn::TransportProblem least =
      attn::TransportPlan<double>(attn::shapes_of(in), exact, 2).run(in, {}).problems.front();
  std::printf("least mean squared distance: from %.6f to %.6f\n", least.dual, least.value);

  options.divergence = true;
  const attn::TransportProblem apart =
      attn::TransportPlan<double>(attn::shapes_of(in), options, 2).run(in, {}).problems.front();
  std::printf("Sinkhorn's divergence: %.6f\n", apart.divergence.value);

  const bool ordered = least.status == attn::SolveStatus::converged && least.dual <= least.value &&
                       least.dual <= found.value &&
                       apart.divergence.lower <= apart.divergence.value &&
                       apart.divergence.value <= apart.divergence.upper;
  return certified && ordered && worst <= 1e-6 ? 0 : 1;
}
