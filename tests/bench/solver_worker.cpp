// The solvers as timed by tests/bench/solvers.py: Sinkhorn on a cost, also unbalanced, Sinkhorn's
// divergence, batches of Sinkhorn, many small problems of Sinkhorn, the Fenchel dual.

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>

#include "attnkit/dual.hpp"
#include "parallel/parallel_for.hpp"
#include "sinkhorn/divergence.hpp"
#include "sinkhorn/sinkhorn_solver.hpp"
#include "sinkhorn/small_problems.hpp"
#include "worker.hpp"

namespace {

using namespace attn;

std::size_t size(Index count) { return static_cast<std::size_t>(count); }

std::vector<double> squared_distances(const std::vector<double>& x, const std::vector<double>& y) {
  const std::size_t n = x.size() / 2;
  std::vector<double> distances(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      const double dx = x[2 * i] - y[2 * j];
      const double dy = x[2 * i + 1] - y[2 * j + 1];
      distances[i * n + j] = dx * dx + dy * dy;
    }
  }
  return distances;
}

// Squared distances of points in the plane over their maximum.
template <class T>
std::vector<T> cost_of(const std::vector<double>& x, const std::vector<double>& y) {
  const std::vector<double> distances = squared_distances(x, y);
  const double most = *std::max_element(distances.begin(), distances.end());
  std::vector<T> cost(distances.size());
  for (std::size_t e = 0; e < cost.size(); ++e) cost[e] = static_cast<T>(distances[e] / most);
  return cost;
}

// log u and log v of diag(u) K diag(v), less their means, since a constant may move from one to the
// other.
void put_centred(const std::vector<double>& potential, double* to) {
  const double mean = std::accumulate(potential.begin(), potential.end(), 0.0) /
                      static_cast<double>(potential.size());
  for (const double p : potential) *to++ = mean - p;
}

// `largest` is known from reading, as the tools know it.
template <class T>
void iterate(const T* scores, Index n, double largest, double scale, double marginal,
             const SinkhornOptions& options, int threads, double* potentials,
             std::optional<MarginalPenalties> penalties = {}) {
  const BroadcastMatrix<T> source(scores, n, 1, largest);
  const auto energy = make_stored_energy<T>(source, n, n, scale);
  typename Scores<T>::Terms terms;
  terms.energy = energy.get();
  const PooledVector<double> marginal_of_all(size(n), marginal);
  const Marginals marginals{marginal_of_all, marginal_of_all, penalties};
  const SinkhornSolution solution =
      solve_sinkhorn<T>(Scores<T>(terms), marginals, options, {}, threads);
  put_centred(solution.potentials.row, potentials);
  put_centred(solution.potentials.col, potentials + n);
}

SinkhornOptions options_of(const bench::Problem& problem, std::size_t element_size) {
  SinkhornOptions options;
  const double tolerance = problem.option("tolerance", 0);
  if (tolerance > 0) {
    options.stopping.tolerance = tolerance;
  } else {
    options.stopping.iterations = static_cast<Index>(problem.option("iterations", 1));
  }
  options.tuning.kept_bytes =
      useful_sinkhorn_bytes(options, problem.length, problem.length, element_size);
  return options;
}

template <class T>
bench::Contest sinkhorn(const bench::Problem& problem) {
  const Index n = problem.length;
  const auto cost = std::make_shared<std::vector<T>>(
      cost_of<T>(problem.input<double>("x", 2 * n), problem.input<double>("y", 2 * n)));
  const auto potentials = std::make_shared<std::vector<double>>(size(2 * n));
  const SinkhornOptions options = options_of(problem, sizeof(T));
  const double scale = -1 / problem.option("reg", 0.05);
  const double penalty = -scale * problem.option("rho", 0);
  const auto penalties =
      penalty > 0 ? std::optional(MarginalPenalties{penalty, penalty}) : std::nullopt;
  bench::Contest contest;
  contest.answers.emplace_back("potentials", potentials.get());
  contest.variants = {{"cost", [=] {
                         iterate<T>(cost->data(), n, 1, scale, 1 / static_cast<double>(n), options,
                                    omp_get_max_threads(), potentials->data(), penalties);
                       }}};
  return contest;
}

// The costs are computed, too: POT's function takes points.
bench::Contest divergence(const bench::Problem& problem) {
  const Index n = problem.length;
  const auto x = std::make_shared<std::vector<double>>(problem.input<double>("x", 2 * n));
  const auto y = std::make_shared<std::vector<double>>(problem.input<double>("y", 2 * n));
  const auto value = std::make_shared<std::vector<double>>(1);
  const SinkhornOptions options = options_of(problem, sizeof(double));
  const double scale = -1 / problem.option("reg", 0.05);
  const auto solve = [=] {
    struct Side {
      Side(const std::vector<double>& a, const std::vector<double>& b, Index n, double scale)
          : cost(squared_distances(a, b)),
            source(cost.data(), n, 1, *std::max_element(cost.begin(), cost.end())),
            energy(make_stored_energy<double>(source, n, n, scale)) {}
      std::vector<double> cost;
      BroadcastMatrix<double> source;
      std::unique_ptr<Energy<double>> energy;
      Scores<double> scores() const {
        Scores<double>::Terms terms;
        terms.energy = energy.get();
        return Scores<double>(terms);
      }
    };
    const Side between(*x, *y, n, scale), row(*x, *x, n, scale), col(*y, *y, n, scale);
    const Scores<double> scores[] = {between.scores(), row.scores(), col.scores()};
    const PooledVector<double> marginal(size(n), 1 / static_cast<double>(n));
    value->front() = solve_divergence<double>({scores[0], scores[1], scores[2]},
                                              {marginal, marginal}, options, omp_get_max_threads())
                         .sharp /
                     -scale;
  };
  bench::Contest contest;
  contest.answers.emplace_back("value", value.get());
  contest.variants = {{"points", solve}};
  return contest;
}

bench::Contest sinkhorn_batch(const bench::Problem& problem) {
  const Index n = problem.length;
  const Index heads = problem.heads;
  const auto scores =
      std::make_shared<std::vector<float>>(problem.input<float>("scores", heads * n * n));
  const auto potentials = std::make_shared<std::vector<double>>(size(2 * heads * n));
  const SinkhornOptions options = options_of(problem, sizeof(float));
  double largest = 0;
  for (const float s : *scores) largest = std::max(largest, std::abs(static_cast<double>(s)));
  bench::Contest contest;
  contest.answers.emplace_back("potentials", potentials.get());
  contest.variants = {{"heads at once", [=] {
                         parallel_for(heads, omp_get_max_threads(), [&](Index head, int) {
                           iterate<float>(scores->data() + head * n * n, n, largest, 1, 1, options,
                                          1, potentials->data() + 2 * head * n);
                         });
                       }}};
  return contest;
}

bench::Contest bulk(const bench::Problem& problem) {
  const Index n = problem.length;
  const Index count = problem.heads;
  const auto scores =
      std::make_shared<std::vector<float>>(problem.input<float>("scores", count * n * n));
  const auto plan = std::make_shared<std::vector<float>>(scores->size());
  const auto errors = std::make_shared<std::vector<double>>(size(count));
  const auto iterations = static_cast<Index>(problem.option("iterations", 1));
  const bool through = problem.option("gradient", 0) != 0;
  const auto grad_plan = std::make_shared<std::vector<float>>();
  const auto gradient = std::make_shared<std::vector<float>>();
  if (through) {
    *grad_plan = problem.input<float>("grad_plan", count * n * n);
    gradient->resize(scores->size());
  }
  bench::Contest contest;
  contest.answers.emplace_back(through ? "gradient" : "plan",
                               through ? gradient.get() : plan.get());
  contest.variants = {
      {"library", [=] {
         kernel::SmallProblems<float> problems{count, n, n, scores->data()};
         kernel::SmallResults<float> results{plan->data(), nullptr, nullptr, errors->data()};
         if (through) {
           problems.grad_plan = grad_plan->data();
           results.grad_scores = gradient->data();
         }
         solve_small<float>(problems, results, iterations, omp_get_max_threads());
       }}};
  return contest;
}

bench::Contest dual(const bench::Problem& problem) {
  const Index queries = problem.heads;
  const Index count = problem.length;
  const Index depth = problem.depth;
  struct Arrays {
    std::vector<double> templates, evidence, lambda;
    DualInputs inputs;
    DualOutputs outputs;
    std::optional<DualPlan> plan;
  };
  const auto arrays = std::make_shared<Arrays>();
  arrays->templates = problem.input<double>("templates", count * depth);
  arrays->evidence = problem.input<double>("evidence", queries * depth);
  arrays->lambda.resize(size(queries * depth));
  arrays->inputs.templates = {arrays->templates.data(), {count, depth}};
  arrays->inputs.evidence = {arrays->evidence.data(), {queries, depth}};
  arrays->outputs.lambda = {arrays->lambda.data(), {queries, depth}};
  DualPlanOptions options;
  options.solver.gradient_tolerance = problem.option("tolerance", 1e-8);
  arrays->plan.emplace(shapes_of(arrays->inputs), options, omp_get_max_threads());
  bench::Contest contest;
  contest.answers.emplace_back("lambda", &arrays->lambda);
  contest.variants = {{"library", [=] { arrays->plan->run(arrays->inputs, arrays->outputs); }}};
  return contest;
}

}  // namespace

int main() {
  return bench::serve([](const bench::Problem& problem) {
    if (problem.scheme == "dual") return dual(problem);
    if (problem.scheme == "sinkhorn-batch") return sinkhorn_batch(problem);
    if (problem.scheme == "bulk") return bulk(problem);
    if (problem.scheme == "divergence") return divergence(problem);
    return problem.direction.rfind("f32", 0) == 0 ? sinkhorn<float>(problem)
                                                  : sinkhorn<double>(problem);
  });
}
