#include "sinkhorn_iter/transport_heads.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "cli/words.hpp"
#include "common/bundles.hpp"
#include "common/convergence_words.hpp"
#include "common/head_outputs.hpp"
#include "common/leak_warning.hpp"
#include "common/own_rows.hpp"
#include "common/result_kinds.hpp"
#include "common/result_table.hpp"
#include "common/weights_writer.hpp"
#include "feasibility/allowed_pairs.hpp"
#include "sinkhorn/feasible_marginals.hpp"
#include "sinkhorn_iter/divergence.hpp"
#include "sinkhorn_iter/transport_gradients.hpp"
#include "tensor/error_fall.hpp"
#include "tensor/infinity.hpp"

namespace attn::tools {
namespace {

// The maximum number of rows or columns named in a message.
constexpr std::size_t most_named = 8;

// As a share of the totals: a smaller difference may be rounding of marginals to a shorter type, a
// larger one is a mistake.
constexpr double rounded_share = 1e-2;

template <class T>
struct HeadResult {
  TransportResult result;
  SinkhornSolution solution;
  DualGradients<T> gradients;
};

template <class Archive, class T>
void archive(Archive& with, HeadResult<T>& found) {
  archive(with, found.result);
  archive(with, found.solution.potentials.row);
  archive(with, found.solution.potentials.col);
  archive(with, found.solution.errors);
  archive(with, found.gradients);
}

template <class Archive>
void archive(Archive& with, IterationState& state) {
  archive(with, state.refers_to_zero);
  for (PooledVector<double>* const values :
       {&state.row_reference, &state.col_reference, &state.row_factor, &state.col_factor,
        &state.row, &state.col}) {
    archive(with, *values);
  }
  archive(with, state.relaxation);
  archive(with, state.have_row);
}

template <class Archive>
void archive(Archive& with, SinkhornState& state) {
  archive(with, state.temperature);
  archive(with, state.closer);
  archive(with, state.aim);
  archive(with, state.most);
  archive(with, state.iterations);
  archive(with, state.last_error);
  archive(with, state.fall);
  archive(with, state.relaxation);
  archive(with, state.errors);
  archive(with, state.iteration);
}

// The iterations of the problem in progress.
class KeptIterations final : public SinkhornProgress {
 public:
  explicit KeptIterations(Checkpoint& checkpoint) : checkpoint_(checkpoint) {
    if (!checkpoint.has_state()) return;
    from_.emplace();
    checkpoint.load_state([&](LoadingArchive& with) { archive(with, *from_); });
  }

  const SinkhornState* start() const override { return from_ ? &*from_ : nullptr; }
  bool is_due() override { return checkpoint_.is_due(); }
  void keep(SinkhornState& state) override {
    checkpoint_.keep_state([&](SavingArchive& with) { archive(with, state); });
    checkpoint_.write_if_due();
  }

 private:
  Checkpoint& checkpoint_;
  std::optional<SinkhornState> from_;
};

// "rows 3, 5, 7 and 20 more".
std::string lines_text(const char* one, const std::vector<Index>& lines) {
  if (lines.size() == 1) return fmt::format("{} {}", one, lines.front());
  const std::size_t shown = std::min(lines.size(), most_named);
  const std::vector<Index> first(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(shown));
  std::string text = fmt::format("{}s {}", one, fmt::join(first, ", "));
  if (shown < lines.size()) text += fmt::format(" and {} more", lines.size() - shown);
  return text;
}

// "rows 1, 2 have mass 2, but the 1 column allowed for them has mass 1".
std::string side_text(const Shortage& side, const char* one, const char* other) {
  return fmt::format(
      "{} {} mass {:.6g}, but the {} allowed for {} {} mass {:.6g}", lines_text(one, side.lines),
      side.lines.size() == 1 ? "has" : "have", side.demand, cli::counted(side.partners, other),
      side.lines.size() == 1 ? "it" : "them", side.partners == 1 ? "has" : "have", side.capacity);
}

std::string shortage_text(const Feasibility& found) {
  // Reports the side with the shorter list.
  if (found.cols.lines.empty() ||
      (!found.rows.lines.empty() && found.rows.lines.size() <= found.cols.lines.size())) {
    return side_text(found.rows, "row", "column");
  }
  return side_text(found.cols, "column", "row");
}

std::string totals_hint(const Feasibility& found) {
  const double apart = std::abs(found.row_total - found.col_total);
  if (apart > rounded_share * std::max(found.row_total, found.col_total)) {
    return "normalise a and b, so that they have the same sum; --iterations T runs exactly T "
           "iterations anyway";
  }
  // Rounding to two digits must not make it too small.
  return fmt::format("normalise a and b; or --tolerance {:.2g} or larger accepts them as equal",
                     1.1 * apart / tolerated_share);
}

// Why the problem cannot be solved, if so.
void judge(const TransportTask& task, TransportResult& result) {
  const Feasibility& found = result.feasibility;
  const std::string place = task.input.place(result.problem);
  switch (found.prospect) {
    case Prospect::total_support:
      return;
    case Prospect::unequal_totals:
      result.refusal =
          fmt::format("{}: no plan has these marginals: {} adds up to {}, {} to {}", place,
                      task.row_address(), found.row_total, task.col_address(), found.col_total);
      result.hint = totals_hint(found);
      return;
    case Prospect::no_plan:
      result.refusal =
          fmt::format("{}: no plan has these marginals: {}", place, shortage_text(found));
      result.hint = "--iterations T runs exactly T iterations anyway";
      return;
    case Prospect::vanishing:
      break;
  }
  std::vector<std::string> first;
  for (const auto& [i, j] : found.vanishing) {
    if (first.size() == most_named) break;
    first.push_back(fmt::format("[{}, {}]", i, j));
  }
  result.refusal = fmt::format(
      "{}: support without total support: {} allowed entries tend to 0, so no finite potentials "
      "exist: {}{}",
      place, found.vanishing_count, fmt::join(first, ", "),
      static_cast<Index>(first.size()) < found.vanishing_count ? ", ..." : "");
  result.hint = "mask these too, or run exactly T iterations with --iterations T";
}

// Checks feasibility and makes the sums equal; returns the remaining tolerance.
double prepare(const TransportTask& task, const AllowedPairs& pairs, Marginals& marginals,
               TransportResult& result) {
  const FeasibleMarginals found = make_feasible(
      pairs, {task.solver.tolerance, *result.tolerance, task.marginal_epsilon()}, marginals);
  result.feasibility = found.feasibility;
  result.rescaled = found.rescaled;
  judge(task, result);
  return found.tolerance;
}

// Exact transport in the words of the entropic one.
template <class T>
void solve_exactly(const TransportTask& task, const Head<T>& head, Marginals& marginals,
                   std::int64_t kept_bytes, const ObserverList<T>& observers,
                   SinkhornProgress* progress, int threads, HeadResult<T>& found) {
  TransportResult& result = found.result;
  const Scores<T>& scores = head.scores(Scheme::sinkhorn);
  result.feasibility = make_feasible(allowed_pairs(scores, threads),
                                     {std::nullopt, 0, task.marginal_epsilon()}, marginals)
                           .feasibility;
  // Forbidden pairs are refused by the solver.
  if (result.feasibility.prospect == Prospect::unequal_totals) {
    judge(task, result);
    result.hint = "normalise a and b, so that they have the same sum";
    return;
  }
  ExactOptions options = *task.exact;
  options.kept_bytes = kept_bytes;
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
  return found;
}

// The problems of a divergence.
template <class T>
void solve_sides(const TransportTask& task, const Head<T>& head, const Marginals& marginals,
                 const SinkhornOptions& options, int threads, HeadResult<T>& found) {
  FoundDivergence<T> sides = naming_head(
      task.input, head, [&] { return find_divergence(task, head, marginals, options, threads); });
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
  found.solution = std::move(sides.divergence.between);
}

template <class T>
HeadResult<T> solve_head(const TransportTask& task, const Head<T>& head, const HeadOutputs& outputs,
                         std::int64_t kept_bytes, Checkpoint* checkpoint, int threads) {
  const Scores<T>& scores = head.scores(Scheme::sinkhorn);
  HeadResult<T> found;
  TransportResult& result = found.result;
  result.problem = head.problem;
  if (scores.rows() == 0 || scores.cols() == 0) return nothing_to_move(task, head, outputs);
  Marginals marginals = task.marginals(head.problem, scores.allowed_counts());
  if (!task.exact) {
    result.tolerance = tolerance_in_force(task.solver, marginals.total(), sizeof(T));
  }
  SinkhornOptions options = task.solver;
  if (result.tolerance && !task.penalties) {
    options.tolerance = prepare(task, allowed_pairs(scores, threads), marginals, result);
    if (result.infeasible()) return found;
  }
  options.kept_bytes = kept_bytes;
  if (task.diverges) {
    solve_sides(task, head, marginals, options, threads, found);
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
    if (task.exact) {
      solve_exactly<T>(task, head, marginals, kept_bytes, observers, progress, threads, found);
      return;
    }
    found.solution = solve_sinkhorn(scores, marginals, options, observers, threads, progress);
    found.gradients = dual_gradients(task, head, found.solution.potentials, marginals, threads);
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
  if (task.emits("row_potential")) {
    outputs.create("row_potential", DType::f64, {queries}, {"query"});
  }
  if (task.emits("col_potential")) outputs.create("col_potential", DType::f64, {keys}, {"key"});
  create_gradients(outputs, task);
}

// As long as the longest, with NaN after a problem's last iteration.
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

std::string status_name(const TransportResult& result) {
  if (result.infeasible()) return "infeasible";
  switch (result.summary.status) {
    case SolveStatus::done:
      return "done";
    case SolveStatus::converged:
      return "converged";
    case SolveStatus::not_converged:
      break;
  }
  return "not_converged";
}

// Infeasible problems are the worst, then those that did not converge, then large errors.
std::vector<double> rank_of(const TransportResult& result) {
  const bool stopped = result.summary.status == SolveStatus::not_converged;
  return {result.infeasible() ? 2.0 : (stopped ? 1.0 : 0.0),
          result.summary.row_error + result.summary.col_error};
}

// Records the settings that later tools need to compute the plan again.
void record(const TransportTask& task, const TransportResults& results, io::OutputBundle& output) {
  for (const std::string& name : scheme_attributes()) output.remove_attribute(name);
  for (const std::string& name : score_attributes()) output.remove_attribute(name);
  if (task.exact) {
    // Its potentials are of no scheme.
    for (const auto& setting : score_settings(task.scores, Scheme::sinkhorn, task.input.causal)) {
      if (setting.first == "attn_layout") write_settings({setting}, output);
    }
    output.attribute("attn_status", status_name(results.worst()));
    if (task.input.share) task.input.share->rank({{"attn_status"}, rank_of(results.worst())});
    return;
  }
  write_settings(score_settings(task.scores, Scheme::sinkhorn, task.input.causal), output);
  output.attribute("attn_scheme", std::string("sinkhorn"));
  output.attribute("attn_precision", std::string(task.f64 ? "f64" : "f32"));
  output.attribute("attn_status", status_name(results.worst()));
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
  if (tolerance) output.attribute("attn_tolerance", *tolerance);
  if (task.input.share) {
    task.input.share->rank({{"attn_status", "attn_tolerance"}, rank_of(results.worst())});
    task.input.share->rank({{"attn_iterations"}, {static_cast<double>(iterations)}});
  }
}

void warn_of_rescaled(const TransportTask& task, const TransportResult& result,
                      cli::Report& report) {
  if (result.rescaled == 0) return;
  report.warn(fmt::format(
      "{}: the sums of {} and {} differ by {:.2g}: the latter is rescaled to the sum of the former",
      task.input.place(result.problem), task.row_address(), task.col_address(), result.rescaled));
}

template <class T>
TransportResults solve(const cli::Arguments& arguments, const TransportTask& task,
                       HeadOutputs& outputs, Checkpoint* checkpoint, cli::Progress& progress,
                       cli::Report& report) {
  const AttentionInput& input = task.input;
  const MemoryPlan plan = plan_memory(input, sizeof(T), transport_needs(task, sizeof(T)),
                                      arguments.threads, arguments.memory);
  if (!task.settings_left.empty()) warn_of_settings_left(task.settings_left, report);
  create_results(outputs, task);
  TransportResults results;
  std::vector<std::vector<double>> errors;
  const double seconds = for_each_head<T, HeadResult<T>>(
      input, plan, progress,
      [&](double least_bias) { warn_of_finite_masks(least_bias, {Scheme::sinkhorn}, report); },
      [&](const Head<T>& head, int threads) {
        return solve_head<T>(task, head, outputs, plan.useful_bytes, checkpoint, threads);
      },
      [&](Index problem, HeadResult<T>& found) {
        results.problems.push_back(found.result);
        warn_of_rescaled(task, found.result, report);
        if (found.result.infeasible()) return;
        Potentials& potentials = found.solution.potentials;
        const TileRange& own = input.part(problem).range;
        spread_rows(potentials.row, own.row0, input.queries, 1, minus_infinity);
        spread_rows(potentials.col, own.col0, input.keys, 1, minus_infinity);
        outputs.write("row_potential", problem, potentials.row.data());
        outputs.write("col_potential", problem, potentials.col.data());
        write_gradients(outputs, task, problem, found.gradients);
        errors.resize(results.problems.size());
        errors.back() = std::move(found.solution.errors);
      },
      checkpoint, WithinHead::other);
  report.add_compute_seconds(seconds);
  if (task.emits("error")) {
    errors.resize(results.problems.size());
    write_errors(outputs, input, errors);
  }
  return results;
}

std::optional<Convergence> slowest(const std::vector<TransportResult>& problems) {
  std::optional<Convergence> found;
  for (const TransportResult& result : problems) found = slower(found, result.summary.convergence);
  return found;
}

// The options that save iterations and are not in use.
std::string savings(const TransportTask& task) {
  const SinkhornOptions& solver = task.solver;
  std::string options;
  if (solver.relaxation == 1) options = task.penalties ? "--relax 1.4" : "--relax 1.8";
  if (!solver.anneals) options += options.empty() ? "--anneal" : " or --anneal";
  return options;
}

nlohmann::ordered_json figures(const TransportTask& task, const TransportResult& result) {
  const SinkhornSummary& summary = result.summary;
  const double unit = task.unit();
  const double nothing = std::numeric_limits<double>::quiet_NaN();
  const bool solved = !result.infeasible();
  const auto known = [&](double value) { return solved ? value : nothing; };
  nlohmann::ordered_json json;
  json["iterations"] = summary.iterations;
  json["status"] = status_name(result);
  add_convergence(summary.convergence, json);
  if (result.tolerance) json["tolerance"] = *result.tolerance;
  if (result.rescaled > 0) json["rescaled"] = result.rescaled;
  json["row_error"] = known(summary.row_error);
  json["col_error"] = known(summary.col_error);
  if (task.penalties) json["mass"] = known(summary.mass);
  json["value"] = known(task.of_cost ? -unit * summary.score : summary.score);
  if (result.divergence) {
    json["divergence"] = result.divergence->value;
    json["sharp_divergence"] = result.divergence->sharp;
    json["lower"] = result.divergence->lower;
    json["upper"] = result.divergence->upper;
  }
  json["primal"] = known(unit * summary.primal);
  json["dual"] = known(unit * summary.dual);
  json["gap"] = known(unit * summary.gap);
  if (task.exact) {
    json["relative_gap"] = known(summary.gap / std::abs(summary.primal));
    json["epsilon"] = known(result.epsilon);
  }
  if (solved) return json;
  const Feasibility& found = result.feasibility;
  json["row_total"] = found.row_total;
  json["col_total"] = found.col_total;
  const auto shortage = [](const Shortage& lines) {
    return nlohmann::ordered_json{{"lines", lines.lines},
                                  {"demand", lines.demand},
                                  {"partners", lines.partners},
                                  {"capacity", lines.capacity}};
  };
  if (found.prospect == Prospect::no_plan) {
    json["unserved_queries"] = shortage(found.rows);
    json["unserved_keys"] = shortage(found.cols);
  }
  if (found.prospect == Prospect::vanishing) {
    json["vanishing"] = {{"count", found.vanishing_count}, {"first", found.vanishing}};
  }
  return json;
}

}  // namespace

const TransportResult& TransportResults::worst() const {
  return *std::max_element(
      problems.begin(), problems.end(),
      [](const TransportResult& x, const TransportResult& y) { return rank_of(x) < rank_of(y); });
}

TransportResults solve_section(const cli::Arguments& arguments, const TransportTask& task,
                               io::OutputBundle output, Checkpoint* checkpoint,
                               cli::Progress& progress, cli::Report& report) {
  HeadOutputs outputs(output, task.input.leading, report, task.input.share.get());
  const auto run = task.f64 ? solve<double> : solve<float>;
  TransportResults results = run(arguments, task, outputs, checkpoint, progress, report);
  record(task, results, output);
  if (!results.worst().infeasible()) {
    warn_of_leak({Scheme::sinkhorn}, task.input, report);
  }
  return results;
}

cli::Outcome conclude_transport(const TransportTask& task, const TransportResults& results,
                                cli::Report& report) {
  const TransportResult& worst = results.worst();
  auto& json = report.result();
  json = figures(task, worst);
  if (worst.tolerance) report.params()["tolerance"] = *worst.tolerance;
  json["queries"] = task.input.queries;
  json["keys"] = task.input.keys;
  add_padding(task.input.padding(), json);
  auto problems = nlohmann::ordered_json::array();
  for (const TransportResult& result : results.problems) {
    nlohmann::ordered_json each;
    each["index"] = unravel(result.problem, task.input.leading);
    each.update(figures(task, result));
    problems.push_back(std::move(each));
  }
  json["problems"] = std::move(problems);
  if (worst.infeasible()) {
    report.status("infeasible");
    throw Error(Failure::numerical, worst.refusal, worst.hint);
  }
  const SinkhornSummary& summary = worst.summary;
  cli::Outcome outcome;
  outcome.summary =
      fmt::format("{} in {}, {}, {}off by {:.2g}, {} {:.6g}",
                  times(join(task.input.leading, {task.input.queries, task.input.keys})),
                  task.f64 ? "float64" : "float32", cli::counted(summary.iterations, "iteration"),
                  task.penalties ? fmt::format("mass {:.6g}, sums ", summary.mass) : "marginals ",
                  summary.row_error + summary.col_error, task.of_cost ? "cost" : "score",
                  json["value"].get<double>());
  if (worst.divergence) {
    outcome.summary += fmt::format(", divergence {:.6g}", worst.divergence->value);
  } else if (std::isfinite(summary.gap)) {
    outcome.summary += fmt::format(", gap {:.2g}", json["gap"].get<double>());
  }
  outcome.summary += padding_words(task.input.padding());
  if (task.exact && summary.status == SolveStatus::not_converged) {
    outcome.summary += fmt::format(
        ", not converged to a gap of {:g} of the cost; try a larger "
        "--iterations or --gap",
        task.exact->gap);
    report.status("not_converged");
    outcome.status = 1;
  } else if (summary.status == SolveStatus::not_converged) {
    outcome.summary += ", not converged" +
                       convergence_words(slowest(results.problems), "--iterations", savings(task));
    report.status("not_converged");
    outcome.status = 1;
  }
  return outcome;
}

}  // namespace attn::tools
