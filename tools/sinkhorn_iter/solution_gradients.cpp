#include "sinkhorn_iter/solution_gradients.hpp"

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "common/heads/own_rows.hpp"
#include "common/outputs/pair_writer.hpp"
#include "gradient/plan_gradient.hpp"
#include "kernel/gradient.hpp"
#include "kernel/tile.hpp"
#include "plan/barycentre_terms.hpp"
#include "plan/divergence_terms.hpp"
#include "plan/transport_points.hpp"
#include "sinkhorn_iter/point_gradients.hpp"
#include "sinkhorn_iter/transport_gradients.hpp"

namespace attn::tools {
namespace {

constexpr const char* through_cost = "grad_cost";
constexpr const char* through_scores = "grad_scores";
constexpr const char* through_a = "grad_a";
constexpr const char* through_b = "grad_b";
constexpr const char* through_weights = "grad_histogram_weights";
constexpr PointNames through_points = {"grad_q", "grad_k"};

// Writes factor·π_ij (G_ij + u_i + v_j).
template <class T>
class ScoreGradientWriter final : public Observer<T> {
 public:
  ScoreGradientWriter(PairWriter<T> pairs, const MatrixSource<T>* g, const ImplicitGradient& found,
                      double factor)
      : pairs_(std::move(pairs)), g_(g), factor_(factor), ones_(found.row.size(), T{1}) {
    for (const double u : found.row) u_.push_back(static_cast<T>(u));
    for (const double v : found.col) v_.push_back(static_cast<T>(v));
  }

  bool wants_empty_tiles() const override { return true; }

  void observe(const WeightTile<T>& tile, Index) override {
    const TileRange& range = tile.range;
    Buffer<T> storage(range.rows * range.cols);
    const MatrixView<T> made(storage.data(), range.rows, range.cols);
    kernel::Adjoint<T> terms;
    terms.row = u_.data() + range.row0;
    terms.factor = ones_.data() + range.row0;
    terms.col = v_.data() + range.col0;
    if (g_ != nullptr) {
      g_->read(range, made);
      terms.g = made;
    }
    kernel::adjoint_of_scores(tile.weights, terms, false, made);
    for (Index i = 0; i < range.rows; ++i) kernel::scale_row(made.row(i), range.cols, factor_);
    pairs_.write(range.row0, range.col0, made);
  }

 private:
  PairWriter<T> pairs_;
  const MatrixSource<T>* g_;
  double factor_;
  std::vector<T> u_, v_, ones_;
};

// Writes its tiles times a factor. Tiles that are not shown are left out.
template <class T>
class PairGradientWriter final : public GradientSink<T> {
 public:
  PairGradientWriter(PairWriter<T> pairs, double factor)
      : pairs_(std::move(pairs)), factor_(factor) {}

  void start(Index /*lanes*/) override {}
  void merge(Index /*lane*/, SumPart /*part*/) override {}

  void add(const TileRange& range, MatrixView<const T> gradient, Index /*lane*/) override {
    Buffer<T> storage(range.rows * range.cols);
    const MatrixView<T> made(storage.data(), range.rows, range.cols);
    for (Index i = 0; i < range.rows; ++i) {
      std::copy_n(gradient.row(i), range.cols, made.row(i));
      kernel::scale_row(made.row(i), range.cols, factor_);
    }
    pairs_.write(range.row0, range.col0, made);
  }

 private:
  PairWriter<T> pairs_;
  double factor_;
};

// Where derivatives by the cost or by scores go.
template <class T>
PairWriter<T> pairs_of(const TransportTask& task, const char* name, const Head<T>& head,
                       const HeadOutputs& outputs) {
  return PairWriter<T>(outputs.dataset(name), outputs.position(head.problem),
                       task.input.all_pairs(), head.part.range, T{0});
}

// The factor from the derivative by scores to that by the cost.
double pair_factor(const TransportTask& task) { return task.of_cost ? -1 / task.unit() : 1; }

void note(const ImplicitOutcome& solved, double plan_error, TransportResult& result) {
  result.gradient = {solved.iterations, solved.residual, solved.status != SolveStatus::converged,
                     plan_error};
}

}  // namespace

const char* written_gradient(const TransportTask& task) {
  for (const char* name : {through_cost, through_scores}) {
    if (task.emits(name)) return name;
  }
  return nullptr;
}

void require_solution_gradients(const TransportTask& task) {
  std::string first;
  for (const std::string& name : task.emitted) {
    if (first.empty() && name.starts_with("grad_")) first = name;
  }
  if (first.empty()) return;
  const auto refuse = [](const std::string& name, const std::string& why, const std::string& hint) {
    throw Error(Failure::usage, fmt::format("--emit {}: {}", name, why), hint);
  };
  if (!task.upstream) {
    std::vector<const char*> names = {"grad_plan", "grad_row_potential", "grad_col_potential"};
    if (task.histograms) names.insert(names.begin(), "grad_barycentre");
    if (task.diverges) {
      names = {"grad_row_potential", "grad_col_potential", "grad_row_self_potential",
               "grad_col_self_potential"};
    }
    const std::string hint = fmt::format("-i {}=FILE:/path", names.front());
    const std::string last = names.back();
    names.pop_back();
    refuse(first,
           fmt::format("there is no dataset {} or {}, the gradient of a number with respect to a "
                       "result",
                       fmt::join(names, ", "), last),
           hint);
  }
  require_points(task, through_points, "--emit grad_cost or grad_scores");
  using Source = ScoreOptions::Source;
  if (task.emits(through_cost) && task.scores.source != Source::cost) {
    refuse(through_cost, "the scores are not made of a cost", "");
  }
  if (task.emits(through_scores) && task.scores.source != Source::scores) {
    refuse(through_scores, "the scores are not ready-made", "");
  }
  const char* const written = written_gradient(task);
  if (written != nullptr && task.scores.softcap) refuse(written, "--softcap changes it", "");
}

template <class T>
SolutionGradients<T> solution_gradients(const TransportTask& task, const Head<T>& head,
                                        SinkhornSolution& solution, const Marginals& marginals,
                                        const HeadOutputs& outputs, std::int64_t dense_limit,
                                        int threads, TransportResult& result) {
  SolutionGradients<T> found;
  if (!task.upstream) return found;
  Potentials& potentials = solution.potentials;
  const UpstreamInput& from = *task.upstream;
  const TileRange& own = head.part.range;
  const Scores<T>& scores = head.scores(Scheme::sinkhorn);
  std::shared_ptr<OperandMatrix<T>> g;
  if (from.plan) g = matrix_source<T>(*from.plan, head.problem, own, dense_limit);
  const std::vector<double> row = read_upstream(from.row, head.problem, own.row0, own.rows);
  const std::vector<double> col = read_upstream(from.col, head.problem, own.col0, own.cols);
  const PlanUpstream<T> upstream{g.get(), row, col};
  const ImplicitGradient solved =
      implicit_gradient<T>(scores, potentials, marginals, upstream,
                           implicit_options(task.solver.stopping, sizeof(T)), threads);
  note(solved, solution_error(solution.summary, tolerance_in_force({}, marginals, sizeof(T))),
       result);

  if (task.emits(through_a) || task.emits(through_b)) {
    const Potentials by =
        implicit_marginal_gradient<T>(scores, solved, potentials, marginals, upstream, threads);
    if (task.emits(through_a)) found.a.assign(by.row.begin(), by.row.end());
    if (task.emits(through_b)) found.b.assign(by.col.begin(), by.col.end());
  }
  if (through_points.wanted(task)) {
    differentiate_points(
        task, head, task.input.recipe(Scheme::sinkhorn).scale, through_points, found.q, found.k,
        [&](const GradientTargets<T>& targets) {
          differentiate_solution<T>(scores, potentials, g.get(), solved.row, solved.col, targets,
                                    threads);
        },
        threads);
  }
  if (const char* const name = written_gradient(task)) {
    ScoreGradientWriter<T> writer(pairs_of(task, name, head, outputs), g.get(), solved,
                                  pair_factor(task));
    show_weights<T>(scores, potentials, 0, {&writer}, threads);
  }
  return found;
}

template <class T>
SolutionGradients<T> solution_gradients(const TransportTask& task, const Head<T>& head,
                                        Barycentre& barycentre, const OwnHistograms& own,
                                        const HistogramPotentials& potentials,
                                        const HeadOutputs& outputs, std::int64_t dense_limit,
                                        int threads, TransportResult& result) {
  SolutionGradients<T> found;
  if (!task.upstream) return found;
  const Scores<T>& scores = head.scores(Scheme::sinkhorn);
  const Histograms histograms = own.view();
  const TileRange& range = head.part.range;
  const UpstreamInput& from = *task.upstream;
  std::shared_ptr<OperandMatrix<T>> g;
  if (from.plan) g = matrix_source<T>(*from.plan, head.problem, range, dense_limit);
  const std::vector<double> h = read_upstream(from.masses, head.problem, range.row0, range.rows);
  const std::vector<double> row = read_upstream(from.row, head.problem, range.row0, range.rows);
  const std::vector<double> col = read_upstream(from.col, head.problem, range.col0, range.cols);
  const BarycentreUpstream<T> upstream{h, g.get(), row, col};
  const ImplicitBarycentre solved =
      implicit_barycentre(scores, barycentre, histograms, upstream,
                          implicit_options(task.solver.stopping, sizeof(T)), threads);
  note(solved,
       solution_error(barycentre.summary, tolerance_in_force({}, own.first_total, sizeof(T))),
       result);

  if (task.emits(through_a)) {
    const PooledVector<double> by =
        implicit_histogram_gradient(scores, barycentre, histograms, upstream, solved, threads);
    found.a.assign(by.begin(), by.end());
  }
  if (task.emits(through_weights)) {
    for (const double value : implicit_weight_gradient(scores, barycentre, histograms, upstream,
                                                       solved, potentials, threads)) {
      found.weights.push_back(value / own.weight_sum);
    }
  }
  const PooledVector<SolutionTerm> terms = barycentre_terms(barycentre, histograms, solved);
  if (through_points.wanted(task)) {
    differentiate_points(
        task, head, task.input.recipe(Scheme::sinkhorn).scale, through_points, found.q, found.k,
        [&](const GradientTargets<T>& targets) {
          differentiate_solutions<T>(scores, terms, g.get(), targets, threads);
        },
        threads);
  }
  if (const char* const name = written_gradient(task)) {
    PairGradientWriter<T> writer(pairs_of(task, name, head, outputs), pair_factor(task));
    GradientTargets<T> targets;
    targets.scores.push_back(&writer);
    differentiate_solutions<T>(scores, terms, g.get(), targets, threads);
  }
  return found;
}

template <class T>
SolutionGradients<T> solution_gradients(const TransportTask& task, const Head<T>& head,
                                        const DivergenceScores<T>& scores,
                                        SinkhornDivergence& divergence, const Marginals& marginals,
                                        const HeadOutputs& outputs, int threads,
                                        TransportResult& result) {
  SolutionGradients<T> found;
  if (!task.upstream) return found;
  const UpstreamInput& from = *task.upstream;
  const TileRange& own = head.part.range;
  const auto rows = [&](const std::optional<Operand>& operand) {
    return read_upstream(operand, head.problem, own.row0, own.rows);
  };
  const auto cols = [&](const std::optional<Operand>& operand) {
    return read_upstream(operand, head.problem, own.col0, own.cols);
  };
  const std::vector<double> row = rows(from.row), col = cols(from.col);
  const std::vector<double> row_self = rows(from.row_self), col_self = cols(from.col_self);
  const ImplicitDivergence solved =
      implicit_divergence(scores, divergence, marginals, {row, col, row_self, col_self},
                          implicit_options(task.solver.stopping, sizeof(T)), threads);
  note(solved, solution_error(divergence, tolerance_in_force({}, marginals, sizeof(T))), result);

  const Potentials& by = solved.marginals;
  if (task.emits(through_a)) found.a.assign(by.row.begin(), by.row.end());
  if (task.emits(through_b)) found.b.assign(by.col.begin(), by.col.end());
  const PooledVector<SolutionTerm> terms = divergence_terms(divergence, solved);
  if (through_points.wanted(task)) {
    differentiate_points(
        task, head, task.input.recipe(Scheme::sinkhorn).scale, through_points, found.q, found.k,
        [&](const GradientTargets<T>& targets) {
          differentiate_solutions<T>(scores.between, std::span(terms).first(1), nullptr, targets,
                                     threads);
        },
        threads);
    add_self_solution_gradient(head.q(), scores.row, divergence.row.potentials, solved.row,
                               task.unit(), rows_like(head.q(), found.q), threads);
    add_self_solution_gradient(head.k(), scores.col, divergence.col.potentials, solved.col,
                               task.unit(), rows_like(head.k(), found.k), threads);
  }
  if (const char* const name = written_gradient(task)) {
    PairGradientWriter<T> writer(pairs_of(task, name, head, outputs), pair_factor(task));
    GradientTargets<T> targets;
    targets.scores.push_back(&writer);
    differentiate_solutions<T>(scores.between, terms, nullptr, targets, threads);
  }
  return found;
}

template <class T>
void write_no_gradient(const TransportTask& task, const Head<T>& head, const HeadOutputs& outputs) {
  const char* const name = written_gradient(task);
  if (name == nullptr) return;
  PairWriter<T>(outputs.dataset(name), outputs.position(head.problem), task.input.all_pairs(), {},
                T{0});
}

void create_solution_gradients(HeadOutputs& outputs, const TransportTask& task) {
  const AttentionInput& input = task.input;
  const DType type = task.f64 ? DType::f64 : DType::f32;
  if (const char* const name = written_gradient(task)) {
    outputs.create(name, type, {input.queries, input.keys}, {"query", "key"},
                   pairs_chunk(input.queries, input.keys));
  }
  if (task.emits(through_a) && task.histograms) {
    outputs.create(through_a, DType::f64, {task.lines(), input.keys}, {"histogram", "key"});
  } else if (task.emits(through_a)) {
    outputs.create(through_a, DType::f64, {input.queries}, {"query"});
  }
  if (task.emits(through_b)) outputs.create(through_b, DType::f64, {input.keys}, {"key"});
  if (task.emits(through_weights)) {
    outputs.create(through_weights, DType::f64, {task.lines()}, {"histogram"});
  }
  if (task.emits(through_points.q)) {
    outputs.create(through_points.q, type, {input.queries, input.q->cols}, {"query", "feature"});
  }
  if (task.emits(through_points.k)) {
    outputs.create(through_points.k, type, {input.keys, input.k->cols}, {"key", "feature"});
  }
}

template <class T>
void write_solution_gradients(HeadOutputs& outputs, const TransportTask& task, Index problem,
                              SolutionGradients<T>& gradients) {
  const AttentionInput& input = task.input;
  const TileRange& own = input.part(problem).range;
  if (task.histograms) {
    spread_lines(gradients.a, task.lines(), own.col0, input.keys, 0.0);
  } else {
    spread_rows(gradients.a, own.row0, input.queries, 1, 0.0);
  }
  spread_rows(gradients.b, own.col0, input.keys, 1, 0.0);
  outputs.write(through_a, problem, gradients.a.data());
  outputs.write(through_b, problem, gradients.b.data());
  outputs.write(through_weights, problem, gradients.weights.data());
  if (task.emits(through_points.q)) {
    spread_rows(gradients.q, own.row0, input.queries, input.q->cols, T{0});
  }
  if (task.emits(through_points.k)) {
    spread_rows(gradients.k, own.col0, input.keys, input.k->cols, T{0});
  }
  outputs.write(through_points.q, problem, gradients.q.data());
  outputs.write(through_points.k, problem, gradients.k.data());
}

std::int64_t solution_gradient_bytes(const TransportTask& task, std::size_t element_size) {
  if (!task.upstream) return 0;
  const AttentionInput& input = task.input;
  const Index numbers =
      task.histograms ? task.lines() * (input.keys + 1) : input.queries + input.keys;
  return numbers * static_cast<std::int64_t>(sizeof(double)) +
         point_result_bytes(task, through_points, element_size);
}

double solution_gradient_file_bytes(const TransportTask& task, std::size_t element_size) {
  const AttentionInput& input = task.input;
  auto bytes = static_cast<double>(point_result_bytes(task, through_points, element_size));
  const Index of_a = task.histograms ? task.lines() * input.keys : input.queries;
  if (task.emits(through_a)) bytes += static_cast<double>(of_a) * sizeof(double);
  if (task.emits(through_b)) bytes += static_cast<double>(input.keys) * sizeof(double);
  if (task.emits(through_weights)) bytes += static_cast<double>(task.lines()) * sizeof(double);
  if (written_gradient(task) != nullptr) {
    bytes += pairs_elements(input.queries, input.keys) * static_cast<double>(element_size);
  }
  return bytes;
}

std::int64_t solution_gradient_work_bytes(const TransportTask& task, std::size_t element_size,
                                          int threads, std::int64_t dense_limit) {
  if (!task.upstream) return 0;
  const AttentionInput& input = task.input;
  constexpr auto number = static_cast<std::int64_t>(sizeof(double));
  // Upstream, and u, v and ones in the type of the computation.
  std::int64_t bytes = (2 + task.lines()) * (input.queries + input.keys) * number;
  if (task.upstream->plan) {
    bytes += matrix_source_bytes(*task.upstream->plan, element_size, dense_limit);
  }
  if (!task.histograms) {
    // A divergence also has square problems, and u, v and derivatives by marginals of three
    // problems.
    const Index longer = std::max(input.queries, input.keys);
    if (task.diverges) bytes += 12 * (input.queries + input.keys) * number;
    return bytes + std::max(implicit_gradient_bytes(task.diverges ? longer : input.queries,
                                                    task.diverges ? longer : input.keys,
                                                    element_size, threads),
                            point_work_bytes(task, through_points, task.diverges ? 3 : 1,
                                             element_size, threads));
  }
  bytes += (task.lines() + 1) * (input.queries + input.keys) * number;  // U, V and R
  const bool shown = through_points.wanted(task) || written_gradient(task) != nullptr;
  // A tile on each lane.
  const std::int64_t tiles =
      differentiate_plans_bytes(input.queries, input.keys, task.lines(), element_size, threads);
  return bytes +
         std::max({barycentre_gradient_bytes(input.queries, input.keys, task.lines(), element_size,
                                             threads),
                   point_work_bytes(task, through_points, task.lines(), element_size, threads),
                   shown ? 2 * tiles : 0});
}

#define ATTN_FOR_TYPE(T)                                                                     \
  template SolutionGradients<T> solution_gradients(                                          \
      const TransportTask&, const Head<T>&, SinkhornSolution&, const Marginals&,             \
      const HeadOutputs&, std::int64_t, int, TransportResult&);                              \
  template SolutionGradients<T> solution_gradients(                                          \
      const TransportTask&, const Head<T>&, Barycentre&, const OwnHistograms&,               \
      const HistogramPotentials&, const HeadOutputs&, std::int64_t, int, TransportResult&);  \
  template SolutionGradients<T> solution_gradients(                                          \
      const TransportTask&, const Head<T>&, const DivergenceScores<T>&, SinkhornDivergence&, \
      const Marginals&, const HeadOutputs&, int, TransportResult&);                          \
  template void write_no_gradient(const TransportTask&, const Head<T>&, const HeadOutputs&); \
  template void write_solution_gradients(HeadOutputs&, const TransportTask&, Index,          \
                                         SolutionGradients<T>&);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn::tools
