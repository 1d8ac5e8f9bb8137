// The library as timed by tests/bench/run.

#include <omp.h>

#include <memory>

#include "gradient/energy_gradient.hpp"
#include "kernel/parallel.hpp"
#include "pass/output.hpp"
#include "scheme/gradient.hpp"
#include "scheme/scheme.hpp"
#include "worker.hpp"

namespace {

using namespace attn;

struct Arrays {
  std::vector<float> q, k, v, grad_out;
  std::vector<float> out, grad_q, grad_k, grad_v;
};

bool is_backward(const bench::Problem& problem) {
  return problem.direction.rfind("backward", 0) == 0;
}

struct Head {
  const bench::Problem& problem;
  Arrays& arrays;
  Index head;

  // Of as many queries or keys as each head of `values` has.
  MatrixView<float> view(std::vector<float>& values) const {
    const auto length = static_cast<Index>(values.size()) / (problem.heads * problem.depth);
    return {values.data() + head * length * problem.depth, length, problem.depth};
  }
  MatrixView<const float> input(const std::vector<float>& values) const {
    const auto length = static_cast<Index>(values.size()) / (problem.heads * problem.depth);
    return {values.data() + head * length * problem.depth, length, problem.depth};
  }

  void compute(int threads) const {
    const auto q = input(arrays.q);
    const auto k = input(arrays.k);
    const auto v = input(arrays.v);
    const auto energy = make_product_energy<float>(EnergyKind::scaled_dot, q, k, 1);
    Scores<float>::Terms terms;
    terms.energy = energy.get();
    const Scores<float> scores(terms);
    SchemeOptions options;
    options.scheme = problem.scheme == "dnas" ? Scheme::dnas : Scheme::unas;
    Output<float> output(v, view(arrays.out));
    const Attention attention = attend<float>(scores, options, {&output}, threads);
    if (!is_backward(problem)) return;

    const auto gradient = make_product_gradient<float>(EnergyKind::scaled_dot, q, k, 1,
                                                       view(arrays.grad_q), view(arrays.grad_k));
    Forward<float> forward;
    forward.scores = &scores;
    forward.options = options;
    forward.attention = &attention;
    forward.v = v;
    forward.out = input(arrays.out);
    forward.grad_out = input(arrays.grad_out);
    GradientTargets<float> targets;
    targets.v = view(arrays.grad_v);
    targets.energies = {gradient.get()};
    differentiate(forward, targets, threads);
  }
};

bench::Contest attention(const bench::Problem& given) {
  const auto problem = std::make_shared<bench::Problem>(given);
  const auto arrays = std::make_shared<Arrays>();
  const auto queries =
      static_cast<long>(problem->option("queries", static_cast<double>(problem->length)));
  const long of_queries = problem->heads * queries * problem->depth;
  arrays->q = problem->input<float>("q", of_queries);
  arrays->k = problem->input("k");
  arrays->v = problem->input("v");
  arrays->out.resize(arrays->q.size());
  bench::Contest contest;
  contest.answers = {{"out", &arrays->out}};
  if (is_backward(*problem)) {
    arrays->grad_out = problem->input<float>("grad_out", of_queries);
    arrays->grad_q = arrays->q;
    arrays->grad_k = arrays->k;
    arrays->grad_v = arrays->v;
    contest.answers.push_back({"grad_q", &arrays->grad_q});
    contest.answers.push_back({"grad_k", &arrays->grad_k});
    contest.answers.push_back({"grad_v", &arrays->grad_v});
  }
  contest.variants = {{"library", [problem, arrays] {
                         const int threads = omp_get_max_threads();
                         const bool over_heads = problem->heads >= threads;
                         kernel::parallel_for(
                             problem->heads, over_heads ? threads : 1, [&](Index head, int) {
                               Head{*problem, *arrays, head}.compute(over_heads ? 1 : threads);
                             });
                       }}};
  return contest;
}

}  // namespace

int main() { return bench::serve(attention); }
