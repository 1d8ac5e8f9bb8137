// The library as timed by tests/bench/run: a plan, made once and run many
// times.

#include <omp.h>

#include <memory>

#include "attnkit/attention.hpp"
#include "worker.hpp"

namespace {

using namespace attn;

bool is_backward(const bench::Problem& problem) {
  return problem.direction.starts_with("backward");
}

AttentionOptions options_of(const bench::Problem& problem) {
  AttentionOptions options;
  options.scheme = problem.scheme == "dnas" ? Scheme::dnas : Scheme::unas;
  return options;
}

struct Arrays {
  std::vector<float> q, k, v, grad_out;
  std::vector<float> out, grad_q, grad_k, grad_v;
};

// A plan with its arrays, of (heads, queries or keys, depth).
struct Attention {
  Arrays arrays;
  Shape queries, keys;
  AttentionInputs<float> inputs;
  AttentionOutputs<float> outputs;
  AttentionGradients<float> gradients;
  std::unique_ptr<AttentionPlan<float>> plan;

  explicit Attention(const bench::Problem& problem) {
    const auto rows =
        static_cast<Index>(problem.option("queries", static_cast<double>(problem.length)));
    queries = {problem.heads, rows, problem.depth};
    keys = {problem.heads, problem.length, problem.depth};
    const long of_queries = problem.heads * rows * problem.depth;
    arrays.q = problem.input<float>("q", of_queries);
    arrays.k = problem.input("k");
    arrays.v = problem.input("v");
    arrays.out.resize(arrays.q.size());
    inputs.q = {arrays.q.data(), queries};
    inputs.k = {arrays.k.data(), keys};
    inputs.v = {arrays.v.data(), keys};
    outputs.out = {arrays.out.data(), queries};
    if (is_backward(problem)) {
      arrays.grad_out = problem.input<float>("grad_out", of_queries);
      arrays.grad_q = arrays.q;
      arrays.grad_k = arrays.k;
      arrays.grad_v = arrays.v;
      gradients.q = {arrays.grad_q.data(), queries};
      gradients.k = {arrays.grad_k.data(), keys};
      gradients.v = {arrays.grad_v.data(), keys};
    }
    plan = std::make_unique<AttentionPlan<float>>(shapes_of(inputs), options_of(problem),
                                                  omp_get_max_threads());
  }

  void run() {
    if (arrays.grad_out.empty()) {
      plan->run(inputs, outputs);
    } else {
      plan->gradients(inputs, {arrays.grad_out.data(), queries}, gradients, outputs);
    }
  }
};

bench::Contest attention(const bench::Problem& problem) {
  const auto own = std::make_shared<Attention>(problem);
  bench::Contest contest;
  contest.answers = {{"out", &own->arrays.out}};
  if (is_backward(problem)) {
    contest.answers.push_back({"grad_q", &own->arrays.grad_q});
    contest.answers.push_back({"grad_k", &own->arrays.grad_k});
    contest.answers.push_back({"grad_v", &own->arrays.grad_v});
  }
  contest.variants = {{"library", [own] { own->run(); }}};
  return contest;
}

}  // namespace

int main() { return bench::serve(attention); }
