#include "sinkhorn_iter/transport_steps.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "common/frame/bundles.hpp"
#include "common/heads/input_warnings.hpp"
#include "common/heads/own_rows.hpp"
#include "common/outputs/head_outputs.hpp"
#include "common/outputs/weights_writer.hpp"
#include "common/results/result_kinds.hpp"
#include "common/results/result_table.hpp"
#include "sinkhorn_iter/barycentre.hpp"
#include "sinkhorn_iter/divergence.hpp"
#include "sinkhorn_iter/gradients.hpp"
#include "sinkhorn_iter/infeasible.hpp"
#include "sinkhorn_iter/kept_iterations.hpp"
#include "sinkhorn_iter/masses.hpp"
#include "tensor/infinity.hpp"
#include "transport/barycentre_problem.hpp"
#include "transport/transport_problem.hpp"

namespace attn::tools {
namespace {

using Lines = std::vector<double>;

template <class T>
struct HeadResult {
  TransportResult result;
  Lines row_potential, col_potential;  // K lines of a barycentre
  Lines row_self_potential, col_self_potential;
  Lines barycentre;
  InputGradients<T> dual_gradients, solution_gradients;
};

template <class Archive, class T>
void archive(Archive& with, HeadResult<T>& found) {
  archive(with, found.result);
  for (Lines* const lines : {&found.row_potential, &found.col_potential, &found.row_self_potential,
                             &found.col_self_potential, &found.barycentre}) {
    archive(with, *lines);
  }
  archive(with, found.dual_gradients);
  archive(with, found.solution_gradients);
}

// Solves the problem of one head.
template <class T>
class HeadSolver {
 public:
  HeadSolver(const TransportTask& task, const Head<T>& head, const HeadOutputs& outputs,
             const GradientOutputs<T>& gradients, const MemoryPlan& memory, int threads)
      : task_(task),
        head_(head),
        scores_(head.scores(Scheme::sinkhorn)),
        outputs_(outputs),
        gradients_(gradients),
        memory_(memory),
        threads_(threads) {
    found_.result.problem = head.problem;
  }

  HeadResult<T> solve(Checkpoint* checkpoint) {
    if (scores_.rows() == 0 || scores_.cols() == 0) return nothing_to_move();
    Marginals marginals;
    if (!task_.histograms) marginals = task_.marginals(head_.problem, scores_.allowed_counts());
    std::optional<KeptIterations> kept;
    if (checkpoint != nullptr && checkpoint->takes_states()) kept.emplace(*checkpoint);
    SinkhornProgress* const progress = kept ? &*kept : nullptr;
    naming_head(task_.input, head_, [&] {
      if (!task_.histograms) require_points(marginals);
      found_.dual_gradients = InputGradients<T>(task_, of_dual, head_);
      found_.solution_gradients = InputGradients<T>(task_, of_solution, head_);
      task_.histograms ? average(progress) : transport(marginals, progress);
    });
    return std::move(found_);
  }

 private:
  // A problem whose sequence has no queries or no keys: its plan is empty.
  HeadResult<T> nothing_to_move() {
    if (task_.emits("plan")) {
      WeightsWriter<T>(outputs_.dataset("plan"), outputs_.position(head_.problem),
                       task_.input.all_pairs(), {});
    }
    gradients_.write_no_pairs(head_.problem);
    found_.result.figures.gap = std::numeric_limits<double>::quiet_NaN();
    return std::move(found_);
  }

  // Room for the lines of a result, if it is requested.
  std::span<double> room(const char* name, Lines& values, Index size) const {
    if (task_.emits(name)) values.resize(static_cast<std::size_t>(size));
    return values;
  }

  ObserverList<T> observers() {
    if (!task_.emits("plan")) return {};
    plan_.emplace(outputs_.dataset("plan"), outputs_.position(head_.problem),
                  task_.input.all_pairs(), head_.part.range);
    return {&*plan_};
  }

  void transport(Marginals& marginals, SinkhornProgress* progress) {
    if (task_.diverges) require_square(task_, scores_.rows(), scores_.cols());
    require_masses(marginals);
    const Index rows = scores_.rows();
    const Index cols = scores_.cols();
    const TransportOptions options = task_.transport_options(memory_.useful_bytes);
    Lines start;
    if (task_.start) {
      start = read_potentials(*task_.start, head_.problem, head_.part.range.col0, cols);
    }
    const OwnUpstream<T> upstream(task_.upstream, head_, memory_.dense_limit);
    InputGradients<T>& dual = found_.dual_gradients;
    InputGradients<T>& through = found_.solution_gradients;
    const auto pairs = gradients_.pair_sink(head_, through);
    found_.result.figures = solve_transport<T>(
        {.scores = scores_,
         .marginals = marginals,
         .options = options,
         .unit = task_.unit(),
         .of_cost = task_.of_cost,
         .upstream = {upstream.plan.get(), upstream.row, upstream.col},
         .row_self_upstream = upstream.row_self,
         .col_self_upstream = upstream.col_self,
         .start = start},
        {.row_potential = room("row_potential", found_.row_potential, rows),
         .col_potential = room("col_potential", found_.col_potential, cols),
         .row_self_potential = room("row_self_potential", found_.row_self_potential, rows),
         .col_self_potential = room("col_self_potential", found_.col_self_potential, cols),
         .plan = observers(),
         .exact = &found_.result.exact,
         .optimum = {dual.a, dual.b, {points_of(task_, head_, true, dual, threads_)}},
         .through_solution = {through.a,
                              through.b,
                              {points_of(task_, head_, false, through, threads_), pairs.get()}}},
        threads_, progress);
    if (found_.result.infeasible()) refuse_infeasible(task_, found_.result);
  }

  // Default masses are above 0 wherever a line may go.
  void require_points(const Marginals& marginals) const {
    require_defined<T>(
        scores_, task_.a ? std::span<const double>(marginals.row) : std::span<const double>(),
        task_.b ? std::span<const double>(marginals.col) : std::span<const double>(),
        task_.diverges ? "a mass of 0 leaves it out" : "a mass of 0 or a mask leaves it out");
  }

  // The derivative by a mass of 0 is one-sided, and only of the solution.
  void require_masses(const Marginals& marginals) const {
    if (task_.gradient != SolutionGradient::unrolled) return;
    const auto require = [&](const char* name, const auto& masses, const std::string& address) {
      const auto zero = std::find(masses.begin(), masses.end(), 0.0);
      if (!task_.emits(name) || zero == masses.end()) return;
      throw Error(Failure::input,
                  fmt::format("--emit {} --gradient unrolled needs masses > 0, but {} has 0 at {}",
                              name, address, zero - masses.begin()),
                  "--gradient implicit");
    };
    require("grad_a", marginals.row, task_.row_address());
    require("grad_b", marginals.col, task_.col_address());
  }

  void average(SinkhornProgress* progress) {
    TransportResult& result = found_.result;
    const TileRange& own = head_.part.range;
    const OwnHistograms histograms = task_.histograms->read(head_.problem, own.col0, own.cols);
    if (!histograms.refusal.empty()) {
      refuse_histograms(task_, histograms, result);
      return;
    }
    const Index lines = task_.lines();
    const Histograms view = histograms.view();
    const BarycentreOptions options{
        task_.solver.stopping, task_.solver.keeps_errors, {memory_.useful_bytes}};
    const OwnUpstream<T> upstream(task_.upstream, head_, memory_.dense_limit);
    InputGradients<T>& dual = found_.dual_gradients;
    InputGradients<T>& through = found_.solution_gradients;
    const auto pairs = gradients_.pair_sink(head_, through);
    result.figures = as_transport(solve_barycentre<T>(
        {.scores = scores_,
         .histograms = view,
         .total = histograms.first_total,
         .weight_sum = histograms.weight_sum,
         .options = options,
         .unit = task_.unit(),
         .of_cost = task_.of_cost,
         .upstream = {upstream.masses, upstream.plan.get(), upstream.row, upstream.col}},
        {.barycentre = room("barycentre", found_.barycentre, own.rows),
         .row_potential = room("row_potential", found_.row_potential, lines * own.rows),
         .col_potential = room("col_potential", found_.col_potential, lines * own.cols),
         .plan = observers(),
         .optimum = {dual.a, dual.weights, {points_of(task_, head_, true, dual, threads_)}},
         .through_barycentre = {through.a,
                                through.weights,
                                {points_of(task_, head_, false, through, threads_), pairs.get()}}},
        threads_, progress));
    result.figures.mass = histograms.first_total;
  }

  const TransportTask& task_;
  const Head<T>& head_;
  const Scores<T>& scores_;
  const HeadOutputs& outputs_;
  const GradientOutputs<T>& gradients_;
  const MemoryPlan& memory_;
  int threads_;
  HeadResult<T> found_;
  std::optional<WeightsWriter<T>> plan_;
};

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
}

template <class T>
void write_lines(HeadOutputs& outputs, const TransportTask& task, Index problem,
                 HeadResult<T>& found) {
  const TileRange& own = task.input.part(problem).range;
  const auto write = [&](const char* name, Lines& values, Index lines, Index first, Index total,
                         double padding) {
    if (!task.emits(name)) return;
    spread_lines(values, lines, first, total, padding);
    outputs.write(name, problem, values.data());
  };
  const auto by_query = [&](const char* name, Lines& values, Index lines, double padding) {
    write(name, values, lines, own.row0, task.input.queries, padding);
  };
  const auto by_key = [&](const char* name, Lines& values, Index lines, double padding) {
    write(name, values, lines, own.col0, task.input.keys, padding);
  };
  by_query("row_potential", found.row_potential, task.lines(), minus_infinity);
  by_key("col_potential", found.col_potential, task.lines(), minus_infinity);
  by_query("row_self_potential", found.row_self_potential, 1, minus_infinity);
  by_key("col_self_potential", found.col_self_potential, 1, minus_infinity);
  by_query("barycentre", found.barycentre, 1, 0.0);
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
    iterations = std::max(iterations, result.figures.iterations);
  }
  output.attribute("attn_iterations", static_cast<std::int64_t>(iterations));
  if (task.of_cost) output.attribute("attn_epsilon", task.scores.epsilon);
  // Unlike elsewhere, rows need not sum to 1.
  if (task.of_cost || task.a || task.penalties)
    output.attribute("attn_marginals", std::string("given"));
  const auto tolerance = results.worst().figures.tolerance;
  // The tolerance of the error as a sum; attn_tolerance is relative to the total.
  if (tolerance) output.attribute("attn_l1_tolerance", *tolerance);
  if (task.input.share) {
    task.input.share->rank({{"attn_status", "attn_l1_tolerance"}, results.worst().badness()});
    task.input.share->rank({{"attn_iterations"}, {static_cast<double>(iterations)}});
  }
}

void warn_of_rescaled(const TransportTask& task, const TransportResult& result,
                      cli::Report& report) {
  const double rescaled = result.figures.rescaled;
  if (rescaled == 0) return;
  report.warn_of_problem(result.problem,
                         fmt::format("{}: the sums of {} and {} differ by {:.2g}: the latter is "
                                     "rescaled to the sum of the former",
                                     task.input.place(result.problem), task.row_address(),
                                     task.col_address(), rescaled));
}

template <class T>
TransportResults solve(const cli::Arguments& arguments, const TransportTask& task,
                       HeadOutputs& outputs, io::OutputBundle& bundle, Checkpoint* checkpoint,
                       cli::Progress& progress, cli::Report& report) {
  const AttentionInput& input = task.input;
  const HeadNeeds needs = transport_needs(task, sizeof(T), arguments.ranks);
  const MemoryPlan plan = plan_memory(input, sizeof(T), needs, arguments.threads, arguments.memory);
  const Ranks::Use rows(Ranks::current(), needs.ranks.cut);
  if (!task.settings_left.empty()) warn_of_settings_left(task.settings_left, report);
  create_results(outputs, task);
  GradientOutputs<T> gradients(outputs, bundle, task, report);
  TransportResults results;
  std::vector<std::vector<double>> errors;
  const double seconds = for_each_head<T, HeadResult<T>>(
      input, plan, progress,
      [&](double least_bias) { warn_of_finite_masks(least_bias, {Scheme::sinkhorn}, report); },
      [&](const Head<T>& head, int threads) {
        return HeadSolver<T>(task, head, outputs, gradients, plan, threads).solve(checkpoint);
      },
      [&](Index problem, HeadResult<T>& found) {
        if (!found.result.infeasible()) {
          write_lines(outputs, task, problem, found);
          gradients.write(problem, found.dual_gradients, found.solution_gradients);
        }
        errors.push_back(std::move(found.result.figures.errors));
        results.problems.push_back(std::move(found.result));
      },
      checkpoint);
  report.add_compute_seconds(seconds);
  if (task.emits("error")) {
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
  TransportResults results = run(arguments, task, outputs, output, checkpoint, progress, report);
  record(task, results, output);
  if (!results.worst().infeasible()) {
    warn_of_input({Scheme::sinkhorn}, task.bundle, task.input, report);
    warn_of_leak({Scheme::sinkhorn}, task.input, report);
  }
  for (const TransportResult& result : results.problems) warn_of_rescaled(task, result, report);
  return results;
}

}  // namespace attn::tools
