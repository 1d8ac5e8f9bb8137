#include "sinkhorn_iter/transport_gradients.hpp"

#include "common/heads/own_rows.hpp"
#include "gradient/plan_gradient.hpp"
#include "plan/barycentre_terms.hpp"
#include "plan/transport_points.hpp"
#include "sinkhorn/tempered_energy.hpp"
#include "sinkhorn_iter/point_gradients.hpp"

namespace attn::tools {
namespace {

constexpr const char* by_a = "dual_grad_a";
constexpr const char* by_b = "dual_grad_b";
constexpr const char* by_q = "dual_grad_q";
constexpr const char* by_k = "dual_grad_k";
constexpr const char* by_weights = "dual_grad_histogram_weights";
constexpr PointNames by_points = {by_q, by_k};

// The derivatives of −Σ coefficient ⟨π, C⟩ at these plans of the scores, by q and k, as far as
// requested.
template <class T>
void differentiate_cost(const TransportTask& task, const Head<T>& head, const Scores<T>& scores,
                        std::span<const PlanTerm> plans, DualGradients<T>& found, int threads) {
  // The energy with the scale of the cost.
  const double scale = task.input.recipe(Scheme::sinkhorn).scale * task.unit();
  differentiate_points(
      task, head, scale, by_points, found.q, found.k,
      [&](const GradientTargets<T>& targets) {
        differentiate_plans(scores, plans, targets, threads);
      },
      threads);
}

}  // namespace

void require_gradients(const TransportTask& task) {
  require_points(task, by_points, "the derivative with respect to a cost is the plan: --emit plan");
}

template <class T>
DualGradients<T> dual_gradients(const TransportTask& task, const Head<T>& head,
                                const Potentials& potentials, const Marginals& marginals,
                                int threads) {
  DualGradients<T> found;
  if (task.emits(by_a) || task.emits(by_b)) {
    found.marginals = marginal_gradient(head.scores(Scheme::sinkhorn), potentials, marginals,
                                        task.unit(), threads);
  }
  if (by_points.wanted(task)) {
    const PlanTerm plan{-1, potentials.row, potentials.col};
    differentiate_cost(task, head, head.scores(Scheme::sinkhorn), {&plan, 1}, found, threads);
  }
  return found;
}

template <class T>
DualGradients<T> exact_gradients(const TransportTask& task, const Head<T>& head,
                                 const ExactSolution& solution, const Marginals& marginals,
                                 int threads) {
  DualGradients<T> found;
  if (task.emits(by_a) || task.emits(by_b)) {
    found.marginals = marginal_gradient(head.scores(Scheme::sinkhorn), solution.potentials,
                                        marginals, task.unit(), threads);
  }
  if (!by_points.wanted(task)) return found;
  const TemperedEnergy<T> energy(head.scores(Scheme::sinkhorn), 1 / solution.summary.epsilon);
  typename Scores<T>::Terms terms;
  terms.energy = &energy;
  const PlanTerm plan{-1, solution.scaled_down.row, solution.scaled_down.col};
  differentiate_cost(task, head, Scores<T>(terms), {&plan, 1}, found, threads);
  add_missing_gradient(head.q(), solution.row_missing, head.k(), solution.col_missing,
                       rows_like(head.q(), found.q));
  add_missing_gradient(head.k(), solution.col_missing, head.q(), solution.row_missing,
                       rows_like(head.k(), found.k));
  return found;
}

template <class T>
DualGradients<T> barycentre_gradients(const TransportTask& task, const Head<T>& head,
                                      const Barycentre& barycentre, const OwnHistograms& own,
                                      const HistogramPotentials& potentials, int threads) {
  const Histograms histograms = own.view();
  DualGradients<T> found;
  if (task.emits(by_a)) {
    found.marginals.row = barycentre_gradient(barycentre, histograms);
    for (double& value : found.marginals.row) value *= task.unit();
  }
  if (task.emits(by_weights)) {
    found.weights = weight_gradient(barycentre, histograms, potentials);
    for (double& value : found.weights) value *= task.unit() / own.weight_sum;
  }
  if (!by_points.wanted(task)) return found;
  differentiate_cost(task, head, head.scores(Scheme::sinkhorn),
                     barycentre_plans(barycentre, histograms, -1), found, threads);
  return found;
}

void create_gradients(HeadOutputs& outputs, const TransportTask& task) {
  const AttentionInput& input = task.input;
  const DType type = task.f64 ? DType::f64 : DType::f32;
  if (task.emits(by_a) && task.histograms) {
    outputs.create(by_a, DType::f64, {task.lines(), input.keys}, {"histogram", "key"});
  } else if (task.emits(by_a)) {
    outputs.create(by_a, DType::f64, {input.queries}, {"query"});
  }
  if (task.emits(by_b)) outputs.create(by_b, DType::f64, {input.keys}, {"key"});
  if (task.emits(by_weights)) outputs.create(by_weights, DType::f64, {task.lines()}, {"histogram"});
  if (task.emits(by_q)) {
    outputs.create(by_q, type, {input.queries, input.q->cols}, {"query", "feature"});
  }
  if (task.emits(by_k)) outputs.create(by_k, type, {input.keys, input.k->cols}, {"key", "feature"});
}

template <class T>
void write_gradients(HeadOutputs& outputs, const TransportTask& task, Index problem,
                     DualGradients<T>& gradients) {
  const AttentionInput& input = task.input;
  const TileRange& own = input.part(problem).range;
  if (task.histograms) {
    spread_lines(gradients.marginals.row, task.lines(), own.col0, input.keys, 0.0);
  } else {
    spread_rows(gradients.marginals.row, own.row0, input.queries, 1, 0.0);
  }
  spread_rows(gradients.marginals.col, own.col0, input.keys, 1, 0.0);
  outputs.write(by_a, problem, gradients.marginals.row.data());
  outputs.write(by_b, problem, gradients.marginals.col.data());
  outputs.write(by_weights, problem, gradients.weights.data());
  if (task.emits(by_q)) spread_rows(gradients.q, own.row0, input.queries, input.q->cols, T{0});
  if (task.emits(by_k)) spread_rows(gradients.k, own.col0, input.keys, input.k->cols, T{0});
  outputs.write(by_q, problem, gradients.q.data());
  outputs.write(by_k, problem, gradients.k.data());
}

std::int64_t gradient_result_bytes(const TransportTask& task, std::size_t element_size) {
  const AttentionInput& input = task.input;
  std::int64_t bytes = 0;
  if (task.emits(by_a) || task.emits(by_b)) {
    const Index numbers = task.histograms ? task.lines() * input.keys : input.queries + input.keys;
    bytes += numbers * static_cast<std::int64_t>(sizeof(double));
  }
  if (task.emits(by_weights)) bytes += task.lines() * static_cast<std::int64_t>(sizeof(double));
  return bytes + point_result_bytes(task, by_points, element_size);
}

std::int64_t gradient_work_bytes(const TransportTask& task, std::size_t element_size, int threads) {
  return point_work_bytes(task, by_points, task.lines(), element_size, threads);
}

#define ATTN_FOR_TYPE(T)                                                                  \
  template DualGradients<T> dual_gradients(const TransportTask&, const Head<T>&,          \
                                           const Potentials&, const Marginals&, int);     \
  template DualGradients<T> exact_gradients(const TransportTask&, const Head<T>&,         \
                                            const ExactSolution&, const Marginals&, int); \
  template DualGradients<T> barycentre_gradients(const TransportTask&, const Head<T>&,    \
                                                 const Barycentre&, const OwnHistograms&, \
                                                 const HistogramPotentials&, int);        \
  template void write_gradients(HeadOutputs&, const TransportTask&, Index, DualGradients<T>&);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn::tools
