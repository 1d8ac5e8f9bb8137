#include "sinkhorn_iter/transport_steps.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "common/frame/bundles.hpp"
#include "common/heads/input_warnings.hpp"
#include "common/heads/own_rows.hpp"
#include "common/outputs/head_outputs.hpp"
#include "common/outputs/weights_writer.hpp"
#include "common/results/result_kinds.hpp"
#include "common/results/result_table.hpp"
#include "common/tables/convergence_words.hpp"
#include "feasibility/allowed_pairs.hpp"
#include "sinkhorn/feasible_marginals.hpp"
#include "sinkhorn_iter/barycentre.hpp"
#include "sinkhorn_iter/divergence.hpp"
#include "sinkhorn_iter/infeasible.hpp"
#include "sinkhorn_iter/kept_iterations.hpp"
#include "sinkhorn_iter/solution_gradients.hpp"
#include "sinkhorn_iter/transport_gradients.hpp"
#include "tensor/error_fall.hpp"
#include "tensor/infinity.hpp"

namespace attn::tools {
namespace {

template <class T>
struct HeadResult {
  TransportResult result;
  SinkhornSolution solution;        // with K lines of either potential for a barycentre
  PooledVector<double> barycentre;  // (Lq)
  PooledVector<double> row_self;    // for a divergence: f of a with itself (Lq)
  PooledVector<double> col_self;    // and g of b (Lk)
  DualGradients<T> gradients;
  SolutionGradients<T> through_solution;
};

template <class Archive, class T>
void archive(Archive& with, HeadResult<T>& found) {
  archive(with, found.result);
  archive(with, found.solution.potentials.row);
  archive(with, found.solution.potentials.col);
  archive(with, found.solution.errors);
  archive(with, found.barycentre);
  archive(with, found.row_self);
  archive(with, found.col_self);
  archive(with, found.gradients);
  archive(with, found.through_solution);
}

// Checks feasibility and makes the sums equal; returns the remaining tolerance.
double prepare(const TransportTask& task, const AllowedPairs& pairs, Marginals& marginals,
               TransportResult& result) {
  const FeasibleMarginals found = make_feasible(
      pairs, {task.solver.stopping.tolerance, *result.tolerance, task.marginal_epsilon()},
      marginals);
  result.feasibility = found.feasibility;
  result.rescaled = found.rescaled;
  refuse_infeasible(task, result);
  return found.tolerance;
}

// The result of exact transport in the form of entropic transport.
template <class T>
void solve_exactly(const TransportTask& task, const Head<T>& head, Marginals& marginals,
                   const SinkhornOptions::Tuning& tuning, const ObserverList<T>& observers,
                   SinkhornProgress* progress, int threads, HeadResult<T>& found) {
  TransportResult& result = found.result;
  const Scores<T>& scores = head.scores(Scheme::sinkhorn);
  result.feasibility = make_feasible(allowed_pairs(scores, threads),
                                     {std::nullopt, 0, task.marginal_epsilon()}, marginals)
                           .feasibility;
  // Forbidden pairs are refused by the solver.
  if (result.feasibility.prospect == Prospect::unequal_totals) {
    refuse_infeasible(task, result);
    result.hint = "normalise a and b, so that they have the same sum";
    return;
  }
  ExactOptions options = *task.exact;
  options.tuning = tuning;
  ExactSolution exact = solve_exact(scores, marginals, options, observers, threads, progress);
  found.gradients = exact_gradients(task, head, exact, marginals, threads);
  found.solution.potentials = std::move(exact.potentials);
  SinkhornSummary& summary = found.solution.summary;
  summary.status = exact.summary.status;
  summary.iterations = exact.summary.iterations;
  summary.row_error = exact.summary.row_error;
  summary.col_error = exact.summary.col_error;
  summary.score = -exact.summary.value;
  summary.primal = exact.summary.value;
  summary.dual = exact.summary.lower;
  summary.gap = exact.summary.value - exact.summary.lower;
  result.epsilon = exact.summary.epsilon;
  result.gap_floor = exact.summary.rounding;
  result.limited_by_rounding = exact.summary.limited_by_rounding;
}

// A problem whose sequence has no queries or no keys: its plan is empty.
template <class T>
HeadResult<T> nothing_to_move(const TransportTask& task, const Head<T>& head,
                              const HeadOutputs& outputs) {
  HeadResult<T> found;
  found.result.problem = head.problem;
  if (task.emits("plan")) {
    WeightsWriter<T>(outputs.dataset("plan"), outputs.position(head.problem),
                     task.input.all_pairs(), {});
  }
  write_no_gradient(task, head, outputs);
  return found;
}

// The problems of a divergence.
template <class T>
void solve_sides(const TransportTask& task, const Head<T>& head, const Marginals& marginals,
                 const SinkhornOptions& options, const HeadOutputs& outputs, int threads,
                 HeadResult<T>& found) {
  FoundDivergence<T> sides = naming_head(task.input, head, [&] {
    return find_divergence(task, head, marginals, options, outputs, threads, found.result);
  });
  const SinkhornDivergence& divergence = sides.divergence;
  const double unit = task.unit();
  found.result.divergence = {unit * divergence.value, unit * divergence.sharp,
                             unit * divergence.lower, unit * divergence.upper};
  SinkhornSummary& summary = found.result.summary;
  summary = divergence.between.summary;
  for (const SinkhornSolution* const self : {&divergence.row, &divergence.col}) {
    summary.convergence = slower(summary.convergence, self->summary.convergence);
  }
  summary.status = divergence.status();
  summary.iterations = divergence.iterations();
  found.gradients = std::move(sides.gradients);
  found.through_solution = std::move(sides.through_solution);
  found.row_self = std::move(sides.divergence.row.potentials.row);
  found.col_self = std::move(sides.divergence.col.potentials.col);
  found.solution = std::move(sides.divergence.between);
}

// The result of a barycentre in the form of transport.
template <class T>
void solve_averaged(const TransportTask& task, const Head<T>& head, const HeadOutputs& outputs,
                    const MemoryPlan& memory, const ObserverList<T>& observers,
                    SinkhornProgress* progress, int threads, HeadResult<T>& found) {
  FoundBarycentre<T> one =
      average_histograms(task, head, outputs, memory, observers, progress, threads, found.result);
  found.barycentre = std::move(one.barycentre.masses);
  found.solution.potentials.row = std::move(one.barycentre.row);
  found.solution.potentials.col = std::move(one.barycentre.col);
  found.solution.errors = std::move(one.barycentre.errors);
  found.solution.summary = one.barycentre.summary;
  found.gradients = std::move(one.gradients);
  found.through_solution = std::move(one.through_solution);
}

template <class T>
HeadResult<T> solve_head(const TransportTask& task, const Head<T>& head, const HeadOutputs& outputs,
                         const MemoryPlan& memory, Checkpoint* checkpoint, int threads) {
  const Scores<T>& scores = head.scores(Scheme::sinkhorn);
  HeadResult<T> found;
  TransportResult& result = found.result;
  result.problem = head.problem;
  if (scores.rows() == 0 || scores.cols() == 0) return nothing_to_move(task, head, outputs);
  Marginals marginals;
  if (!task.histograms) marginals = task.marginals(head.problem, scores.allowed_counts());
  if (task.is_of_scheme()) {
    result.tolerance = tolerance_in_force(task.solver.stopping, marginals, sizeof(T));
  }
  SinkhornOptions options = task.solver;
  if (result.tolerance && !task.penalties) {
    options.stopping.tolerance = prepare(task, allowed_pairs(scores, threads), marginals, result);
    if (result.infeasible()) return found;
  }
  options.tuning.kept_bytes = memory.useful_bytes;
  if (task.diverges) {
    solve_sides(task, head, marginals, options, outputs, threads, found);
    return found;
  }
  std::optional<WeightsWriter<T>> plan;
  std::vector<Observer<T>*> observers;
  if (task.emits("plan")) {
    plan.emplace(outputs.dataset("plan"), outputs.position(head.problem), task.input.all_pairs(),
                 head.part.range);
    observers.push_back(&*plan);
  }
  std::optional<KeptIterations> kept;
  if (checkpoint != nullptr && checkpoint->takes_states()) kept.emplace(*checkpoint);
  naming_head(task.input, head, [&] {
    SinkhornProgress* const progress = kept ? &*kept : nullptr;
    if (task.histograms) {
      solve_averaged<T>(task, head, outputs, memory, observers, progress, threads, found);
      return;
    }
    if (task.exact) {
      solve_exactly<T>(task, head, marginals, options.tuning, observers, progress, threads, found);
      return;
    }
    found.solution = solve_sinkhorn(scores, marginals, options, observers, threads, progress);
    Potentials& potentials = found.solution.potentials;
    found.gradients = dual_gradients(task, head, potentials, marginals, threads);
    found.through_solution = solution_gradients(task, head, found.solution, marginals, outputs,
                                                memory.dense_limit, threads, result);
  });
  result.summary = found.solution.summary;
  return found;
}

void create_results(HeadOutputs& outputs, const TransportTask& task) {
  const Index queries = task.input.queries;
  const Index keys = task.input.keys;
  if (task.emits("plan")) {
    outputs.create("plan", task.f64 ? DType::f64 : DType::f32, {queries, keys}, {"query", "key"},
                   pairs_chunk(queries, keys));
  }
  if (task.emits("barycentre")) outputs.create("barycentre", DType::f64, {queries}, {"query"});
  const auto create_potential = [&](const char* name, Index length, const char* label) {
    if (!task.emits(name)) return;
    if (task.histograms) {
      outputs.create(name, DType::f64, {task.lines(), length}, {"histogram", label});
    } else {
      outputs.create(name, DType::f64, {length}, {label});
    }
  };
  create_potential("row_potential", queries, "query");
  create_potential("col_potential", keys, "key");
  create_potential("row_self_potential", queries, "query");
  create_potential("col_self_potential", keys, "key");
  create_gradients(outputs, task);
  create_solution_gradients(outputs, task);
}

// As long as the longest list, with NaN after a problem's last iteration.
void write_errors(HeadOutputs& outputs, const AttentionInput& input,
                  std::vector<std::vector<double>>& errors) {
  std::size_t longest = 1;
  for (const auto& each : errors) longest = std::max(longest, each.size());
  const auto length = static_cast<Index>(longest);
  outputs.create("error", DType::f64, {length}, {"iteration"}, {}, false, true);
  for (std::size_t n = 0; n < errors.size(); ++n) {
    errors[n].resize(longest, std::numeric_limits<double>::quiet_NaN());
    outputs.write("error", input.own_problem(static_cast<Index>(n)), errors[n].data());
  }
}

// Records the settings that later tools need to compute the plan again.
void record(const TransportTask& task, const TransportResults& results, io::OutputBundle& output) {
  for (const std::string& name : scheme_attributes()) output.remove_attribute(name);
  for (const std::string& name : score_attributes()) output.remove_attribute(name);
  if (!task.is_of_scheme()) {
    for (const auto& setting : score_settings(task.scores, Scheme::sinkhorn, task.input.causal)) {
      if (setting.first == "attn_layout") write_settings({setting}, output);
    }
    output.attribute("attn_status", results.worst().status_name());
    if (task.input.share) task.input.share->rank({{"attn_status"}, results.worst().badness()});
    return;
  }
  write_settings(score_settings(task.scores, Scheme::sinkhorn, task.input.causal), output);
  output.attribute("attn_scheme", std::string("sinkhorn"));
  output.attribute("attn_precision", std::string(task.f64 ? "f64" : "f32"));
  output.attribute("attn_status", results.worst().status_name());
  Index iterations = 0;
  for (const TransportResult& result : results.problems) {
    iterations = std::max(iterations, result.summary.iterations);
  }
  output.attribute("attn_iterations", static_cast<std::int64_t>(iterations));
  if (task.of_cost) output.attribute("attn_epsilon", task.scores.epsilon);
  // Unlike elsewhere, rows need not sum to 1.
  if (task.of_cost || task.a || task.penalties)
    output.attribute("attn_marginals", std::string("given"));
  const auto tolerance = results.worst().tolerance;
  // The tolerance of the error as a sum; attn_tolerance is relative to the total.
  if (tolerance) output.attribute("attn_l1_tolerance", *tolerance);
  if (task.input.share) {
    task.input.share->rank({{"attn_status", "attn_l1_tolerance"}, results.worst().badness()});
    task.input.share->rank({{"attn_iterations"}, {static_cast<double>(iterations)}});
  }
}

void warn_of_rescaled(const TransportTask& task, const TransportResult& result,
                      cli::Report& report) {
  if (result.rescaled == 0) return;
  report.warn_of_problem(result.problem,
                         fmt::format("{}: the sums of {} and {} differ by {:.2g}: the latter is "
                                     "rescaled to the sum of the former",
                                     task.input.place(result.problem), task.row_address(),
                                     task.col_address(), result.rescaled));
}

template <class T>
TransportResults solve(const cli::Arguments& arguments, const TransportTask& task,
                       HeadOutputs& outputs, Checkpoint* checkpoint, cli::Progress& progress,
                       cli::Report& report) {
  const AttentionInput& input = task.input;
  const HeadNeeds needs = transport_needs(task, sizeof(T), arguments.ranks);
  const MemoryPlan plan = plan_memory(input, sizeof(T), needs, arguments.threads, arguments.memory);
  const Ranks::Use rows(Ranks::current(), needs.ranks.cut);
  if (!task.settings_left.empty()) warn_of_settings_left(task.settings_left, report);
  create_results(outputs, task);
  TransportResults results;
  std::vector<std::vector<double>> errors;
  const double seconds = for_each_head<T, HeadResult<T>>(
      input, plan, progress,
      [&](double least_bias) { warn_of_finite_masks(least_bias, {Scheme::sinkhorn}, report); },
      [&](const Head<T>& head, int threads) {
        return solve_head<T>(task, head, outputs, plan, checkpoint, threads);
      },
      [&](Index problem, HeadResult<T>& found) {
        results.problems.push_back(found.result);
        if (found.result.infeasible()) return;
        Potentials& potentials = found.solution.potentials;
        const TileRange& own = input.part(problem).range;
        spread_lines(potentials.row, task.lines(), own.row0, input.queries, minus_infinity);
        spread_lines(potentials.col, task.lines(), own.col0, input.keys, minus_infinity);
        spread_rows(found.barycentre, own.row0, input.queries, 1, 0.0);
        outputs.write("barycentre", problem, found.barycentre.data());
        spread_rows(found.row_self, own.row0, input.queries, 1, minus_infinity);
        spread_rows(found.col_self, own.col0, input.keys, 1, minus_infinity);
        outputs.write("row_self_potential", problem, found.row_self.data());
        outputs.write("col_self_potential", problem, found.col_self.data());
        outputs.write("row_potential", problem, potentials.row.data());
        outputs.write("col_potential", problem, potentials.col.data());
        write_gradients(outputs, task, problem, found.gradients);
        write_solution_gradients(outputs, task, problem, found.through_solution);
        errors.resize(results.problems.size());
        errors.back() = std::move(found.solution.errors);
      },
      checkpoint);
  report.add_compute_seconds(seconds);
  if (task.emits("error")) {
    errors.resize(results.problems.size());
    write_errors(outputs, input, errors);
  }
  return results;
}

}  // namespace

TransportResults solve_section(const cli::Arguments& arguments, const TransportTask& task,
                               io::OutputBundle output, Checkpoint* checkpoint,
                               cli::Progress& progress, cli::Report& report) {
  HeadOutputs outputs(output, task.input.leading, report, task.input.share.get());
  const auto run = task.f64 ? solve<double> : solve<float>;
  TransportResults results = run(arguments, task, outputs, checkpoint, progress, report);
  record(task, results, output);
  if (!results.worst().infeasible()) {
    warn_of_input({Scheme::sinkhorn}, task.bundle, task.input, report);
  }
  for (const TransportResult& result : results.problems) warn_of_rescaled(task, result, report);
  return results;
}

}  // namespace attn::tools
