#include "sinkhorn_iter/transport_task.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "cli/values.hpp"
#include "cli/words.hpp"
#include "common/costs/cost_report.hpp"
#include "common/frame/bundles.hpp"
#include "common/heads/foreign_names.hpp"
#include "common/heads/score_source.hpp"
#include "common/outputs/pair_writer.hpp"
#include "energy/energy_description.hpp"
#include "sinkhorn/exact_transport.hpp"
#include "sinkhorn/sinkhorn_solver.hpp"
#include "sinkhorn/soft_marginals.hpp"
#include "sinkhorn_iter/barycentre.hpp"
#include "sinkhorn_iter/divergence.hpp"
#include "sinkhorn_iter/gradients.hpp"
#include "sinkhorn_iter/masses.hpp"
#include "tensor/infinity.hpp"
#include "transport/transport_problem.hpp"

namespace attn::tools {
namespace {

using Source = ScoreOptions::Source;

bool is_exact(const cli::Arguments& arguments) { return arguments.verb == exact_verb; }

bool is_of_solution(const std::string& name) { return name.starts_with("grad_"); }

// f follows from g.
constexpr const char* start_potential = "col_potential";

bool starts_stored(const cli::Arguments& arguments) {
  return arguments.verb.empty() && arguments.text("start") == "stored";
}

Source usual_source(const cli::Arguments& arguments, const io::InputBundle& bundle) {
  const bool vectors = bundle.has("q") && bundle.has("k");
  if (bundle.has("cost") &&
      (is_exact(arguments) || arguments.number("epsilon") || !(vectors || bundle.has("scores")))) {
    return Source::cost;
  }
  if (vectors) return Source::vectors;
  if (bundle.has("scores")) return Source::scores;
  refuse_other_names(bundle, "cost", {"C", "M", "costs", "cost_matrix", "distance", "distances"});
  return Source::vectors;
}

// The scores of minus the cost of points, divided by epsilon. By default the cost is the squared
// distance.
void take_cost_of_points(const cli::Arguments& arguments, double epsilon, ScoreOptions& options) {
  if (!arguments.given("energy")) options.energy = "gaussian";
  const double of_cost = energy_called(options.energy).cost_scale();
  if (of_cost == 0) {
    std::vector<std::string_view> costs;
    for (const EnergyDescription* const energy : energies()) {
      if (energy->cost_scale() > 0) costs.push_back(energy->name());
    }
    throw Error(Failure::usage,
                fmt::format("--energy {} is no cost of points, expected {}", options.energy,
                            fmt::join(costs, ", ")),
                is_exact(arguments) ? "" : "--scale X in place of --epsilon multiplies any energy");
  }
  options.scale = of_cost / epsilon;
  options.epsilon = epsilon;
}

// Exact transport has scores of minus the cost, as with an epsilon of 1.
void take_cost(const cli::Arguments& arguments, ScoreOptions& options) {
  if (arguments.given("scale")) {
    throw Error(Failure::usage, "--scale has no effect with exact: it would multiply the cost");
  }
  options.epsilon = 1;
  if (options.source == Source::vectors) take_cost_of_points(arguments, 1, options);
}

// epsilon refers to a cost.
void take_epsilon(const cli::Arguments& arguments, ScoreOptions& options) {
  const auto epsilon = arguments.number("epsilon");
  if (options.source == Source::cost) {
    if (!epsilon) throw Error(Failure::usage, "the dataset cost requires --epsilon E");
    if (arguments.given("scale")) {
      throw Error(Failure::usage, "both --scale and --epsilon scale the cost, expected one");
    }
    options.epsilon = *epsilon;
    return;
  }
  if (!epsilon) return;
  if (options.source == Source::scores) {
    throw Error(Failure::usage, "--epsilon has no effect on ready-made scores",
                "-i cost=... names a cost");
  }
  if (arguments.given("scale")) {
    throw Error(Failure::usage, "both --scale and --epsilon scale the energy, expected one");
  }
  take_cost_of_points(arguments, *epsilon, options);
}

ScoreOptions resolve(const cli::Arguments& arguments, const io::InputBundle& bundle) {
  const ScoreOptions recorded = resolve_score_options(arguments, &bundle);
  ScoreOptions options = recorded;
  // As in attn-compute: attributes of an earlier run describe that run, but the order of axes
  // belongs to the tensors.
  if (bundle.text_attribute("attn_scheme")) {
    options = resolve_score_options(arguments, nullptr);
    options.layout = recorded.layout;
  }
  const bool said = bundle.text_attribute("attn_source") && !bundle.text_attribute("attn_scheme");
  if (!arguments.given("from") && !said) options.source = usual_source(arguments, bundle);
  if (options.source == Source::cost && arguments.given("energy")) {
    throw Error(Failure::usage, "--energy has no effect on a cost", "--from qk uses q and k");
  }
  if (options.source == Source::scores && arguments.given("energy")) {
    throw Error(Failure::usage, "--energy has no effect on ready-made scores",
                arguments.given("from") ? "" : "--from qk computes scores from q and k");
  }
  is_exact(arguments) ? take_cost(arguments, options) : take_epsilon(arguments, options);
  return options;
}

SinkhornOptions solver_options(const cli::Arguments& arguments) {
  SinkhornOptions options;
  options.stopping = {arguments.integer("iterations"), arguments.number("tolerance")};
  options.relaxation = arguments.number("relax").value_or(1.0);
  options.anneals = arguments.flag("anneal");
  if (options.anneals && options.stopping.fixed()) {
    throw Error(Failure::usage, "--anneal requires a tolerance, not a fixed number of iterations",
                "--tolerance E");
  }
  return options;
}

std::optional<ExactOptions> exact_options(const cli::Arguments& arguments) {
  if (!is_exact(arguments)) return std::nullopt;
  ExactOptions options;
  options.gap = *arguments.number("gap");
  options.max_iterations = arguments.integer("iterations").value_or(options.max_iterations);
  options.relaxation = arguments.number("relax").value_or(options.relaxation);
  const std::string solver = arguments.text("solver");
  if (solver == method_word(ExactMethod::simplex)) options.method = ExactMethod::simplex;
  if (solver == method_word(ExactMethod::annealing)) options.method = ExactMethod::annealing;
  return options;
}

// "2", "2:0.5" or "inf:0.5".
std::optional<MarginalPenalties> resolve_penalties(const cli::Arguments& arguments) {
  if (!arguments.given("unbalanced")) return std::nullopt;
  const std::string text = arguments.text("unbalanced");
  const std::size_t colon = text.find(':');
  const auto penalty = [](const std::string& word) -> std::optional<double> {
    const std::optional<double> value = word == "inf" ? infinity : cli::to_number(word);
    return value && *value > 0 ? value : std::nullopt;
  };
  const auto row = penalty(text.substr(0, colon));
  const auto col = colon == std::string::npos ? row : penalty(text.substr(colon + 1));
  if (!row || !col) {
    throw Error(Failure::usage, "--unbalanced is " + text +
                                    ", expected RHO > 0, or RHO:RHO for a and b, of which one "
                                    "may be inf");
  }
  if (std::isinf(*row) && std::isinf(*col)) {
    throw Error(Failure::usage, "--unbalanced is " + text + ": that is the balanced problem",
                "leave out --unbalanced");
  }
  return MarginalPenalties{*row, *col};
}

// JSON has no infinity.
nlohmann::json penalty_in_json(double penalty) {
  return std::isinf(penalty) ? nlohmann::json("inf") : nlohmann::json(penalty);
}

// In units of the scores.
void require_joint_penalty(const cli::Arguments& arguments,
                           const std::optional<MarginalPenalties>& penalties, double unit) {
  if (!penalties || joint_penalty(*penalties) / unit <= most_joint_penalty) return;
  throw Error(Failure::usage,
              fmt::format("--unbalanced is {}: RHO RHO/(RHO + RHO) is {:.3g}, above {:.3g} (2^30 "
                          "epsilon), where rounding of the potentials spoils the plan",
                          arguments.text("unbalanced"), joint_penalty(*penalties),
                          most_joint_penalty * unit),
              "without --unbalanced the sums are exact");
}

// The leading axes of the marginals and, for gradients, of the derivatives of L.
Shape axes_beside_scores(const cli::Arguments& arguments, const io::InputBundle& bundle) {
  const bool averages = arguments.verb == barycentre_verb;
  Shape common;
  const auto add = [&](const std::string& name, std::size_t own) {
    if (!bundle.has(name)) return;
    const ArraySource dataset = bundle.dataset(name);
    require_no_empty_axis(dataset);
    const Shape& shape = dataset.shape();
    broadcast(common, leading_axes(shape, std::min(own, shape.size())), common);
  };
  add("a", averages ? 2 : 1);
  add(averages ? histogram_weights : "b", 1);
  if (starts_stored(arguments)) add(start_potential, 1);
  const auto wanted = arguments.words_of("emit");
  if (std::none_of(wanted.begin(), wanted.end(), is_of_solution)) return common;
  const bool diverges = arguments.verb == divergence_verb;
  if (!diverges) add("grad_plan", 2);
  for (const char* const side : {"row", "col"}) {
    add(fmt::format("grad_{}_potential", side), averages ? 2 : 1);
    if (diverges) add(fmt::format("grad_{}_self_potential", side), 1);
  }
  if (averages) add("grad_barycentre", 1);
  return common;
}

bool is_float64(const std::optional<Operand>& operand) {
  return operand && operand->dataset.dtype() == DType::f64;
}

std::optional<Operand> marginal_operand(const io::InputBundle& bundle, const std::string& name,
                                        const Shape& leading, Index length) {
  if (!bundle.has(name)) return std::nullopt;
  return vector_operand(bundle.dataset(name), leading, false, length, NumberTypes::any);
}

}  // namespace

const char* method_word(ExactMethod method) {
  switch (method) {
    case ExactMethod::simplex:
      return "simplex";
    case ExactMethod::annealing:
      return "annealing";
    case ExactMethod::automatic:
      break;
  }
  return "auto";
}

bool TransportTask::suffices(const cli::Arguments& arguments, const io::InputBundle& bundle) {
  if (has_scores(bundle, resolve_score_options(arguments, &bundle).source)) return true;
  if (arguments.given("from")) return false;
  return has_scores(bundle, Source::scores) || has_scores(bundle, Source::cost);
}

TransportTask::TransportTask(const cli::Arguments& arguments, io::InputBundle section)
    : bundle(std::move(section)),
      scores(resolve(arguments, bundle)),
      of_cost(arguments.number("epsilon").has_value() ||
              (is_exact(arguments) && scores.source != Source::scores)),
      input(bundle, scores, false, {Scheme::sinkhorn}, axes_beside_scores(arguments, bundle)),
      solver(solver_options(arguments)),
      penalties(resolve_penalties(arguments)),
      exact(exact_options(arguments)) {
  require_joint_penalty(arguments, penalties, unit());
  require_layout_effect(arguments, input);
  const auto wanted = arguments.words_of("emit");
  emitted.insert(wanted.begin(), wanted.end());
  diverges = arguments.verb == divergence_verb;
  if (exact) {
    solver.stopping.iterations = exact->max_iterations;
    leave_out({"error"}, arguments);
  }
  if (diverges) leave_out({"error", "plan"}, arguments);
  if (arguments.verb == barycentre_verb) {
    histograms.emplace(bundle, input.leading, input.keys);
    leave_out({"dual_grad_b", "grad_b"}, arguments);
  } else {
    leave_out({"barycentre", "dual_grad_histogram_weights", "grad_histogram_weights"}, arguments);
    a = marginal_operand(bundle, "a", input.leading, input.queries);
    b = marginal_operand(bundle, "b", input.leading, input.keys);
    input.plain.has_masses = true;
  }
  if (exact) {
    leave_out({"grad_a", "grad_b", "grad_cost", "grad_k", "grad_q", "grad_scores"}, arguments);
  }
  if (!diverges) leave_out({"row_self_potential", "col_self_potential"}, arguments);
  if (diverges && penalties && penalties->row != penalties->col) {
    throw Error(Failure::usage, "--unbalanced with divergence takes one RHO for a and b");
  }
  if (std::any_of(emitted.begin(), emitted.end(), is_of_solution)) {
    std::optional<Index> lines;
    if (histograms) lines = histograms->count;
    upstream =
        UpstreamInput::read(bundle, input.leading, input.queries, input.keys, lines, diverges);
  }
  if (arguments.given("gradient") && std::none_of(emitted.begin(), emitted.end(), is_of_solution)) {
    throw Error(Failure::usage, "--gradient has no effect without --emit grad_NAME");
  }
  if (starts_stored(arguments)) {
    if (solver.anneals) {
      throw Error(Failure::usage,
                  "--start stored has no effect with --anneal, which starts with a "
                  "larger epsilon");
    }
    start = vector_operand(bundle.dataset(start_potential), input.leading, false, input.keys);
  }
  if (arguments.given("gradient") && arguments.text("gradient") == "unrolled") {
    gradient = SolutionGradient::unrolled;
    for (const char* const option : {"relax", "anneal", "unbalanced", "start"}) {
      if (!arguments.given(option) || (option == std::string("start") && !start)) continue;
      throw Error(Failure::usage,
                  fmt::format("--gradient unrolled needs plain iterations, without --{}", option));
    }
  }
  solver.keeps_errors = emits("error");
  if (bundle.text_attribute("attn_scheme")) {
    settings_left = tools::settings_left(resolve_score_options(arguments, &bundle), scores);
  }
  f64 = arguments.f64.value_or(input.any_float64 || is_float64(a) || is_float64(b) ||
                               (histograms && is_float64(histograms->masses)));
  if (exact && exact->method == ExactMethod::automatic) choose_method(arguments);
}

// The simplex if --memory has room for one problem on one thread: the choice changes bits, so that
// it must not depend on threads.
void TransportTask::choose_method(const cli::Arguments& arguments) {
  const std::size_t element = f64 ? sizeof(double) : sizeof(float);
  exact->method = ExactMethod::simplex;
  const HeadNeeds needs = transport_needs(*this, element, arguments.ranks);
  if (least_bytes(input, element, needs, 1) > arguments.memory) {
    exact->method = ExactMethod::annealing;
  }
}

void TransportTask::leave_out(const std::vector<std::string>& names,
                              const cli::Arguments& arguments) {
  for (const std::string& name : names) {
    if (emitted.erase(name) == 0 || !arguments.given("emit")) continue;
    throw Error(Failure::usage,
                fmt::format("--emit {} has no effect {}", name,
                            arguments.verb.empty() ? "without a verb" : "with " + arguments.verb));
  }
}

std::vector<ArraySource> TransportTask::datasets() const {
  std::vector<ArraySource> all = input.datasets();
  if (a) all.push_back(a->dataset);
  if (b) all.push_back(b->dataset);
  if (start) all.push_back(start->dataset);
  if (upstream) {
    for (ArraySource& one : upstream->datasets()) all.push_back(std::move(one));
  }
  if (histograms) all.push_back(histograms->masses.dataset);
  if (histograms && histograms->weights) all.push_back(histograms->weights->dataset);
  return all;
}

ProblemUnits TransportTask::units() const {
  ProblemUnits units(input.problems);
  const SolutionKinds summed = solution_kinds(*this);
  for (const auto* const kinds : {&summed.masses, &summed.others}) {
    for (const GradientKind& kind : *kinds) {
      units.sum(kind.name, blocks_by_problem(kind, input.problems));
    }
  }
  return units;
}

void TransportTask::report_params(cli::Report& report) const {
  report_score_options(input.options, input.causal, report);
  auto& params = report.params();
  if (!histograms) params["relax"] = exact ? exact->relaxation : solver.relaxation;
  if (exact) {
    params["solver"] = method_word(exact->method);
    params["gap"] = exact->gap;
    params["iterations"] = exact->max_iterations;
  } else if (of_cost) {
    params["epsilon"] = scores.epsilon;
  }
  if (penalties) {
    params["unbalanced"] = {penalty_in_json(penalties->row), penalty_in_json(penalties->col)};
  }
  if (start) params["start"] = "stored";
  params["precision"] = f64 ? "f64" : "f32";
  params["emit"] = emitted;
  if (upstream) {
    params["gradient"] = gradient == SolutionGradient::unrolled ? "unrolled" : "implicit";
  }
  if (!solver.stopping.fixed()) params["iterations"] = solver.stopping.most_iterations();
}

Marginals TransportTask::marginals(Index problem, const AllowedCounts& allowed) const {
  std::optional<std::vector<double>> row, col;
  const TileRange& own = input.part(problem).range;
  if (a) row = read_masses(*a, problem, {0, 1, own.row0, own.rows});
  if (b) col = read_masses(*b, problem, {0, 1, own.col0, own.cols});
  Marginals found = complete_marginals(std::move(row), std::move(col), allowed, of_cost);
  if (penalties) found.penalties = {penalties->row / unit(), penalties->col / unit()};
  return found;
}

TransportOptions TransportTask::transport_options(std::int64_t kept_bytes) const {
  TransportOptions options;
  options.epsilon = unit();
  options.exact = exact;
  options.divergence = diverges;
  options.penalties = penalties;
  options.solver = solver;
  options.solver.tuning.kept_bytes = kept_bytes;
  if (exact) options.exact->tuning = options.solver.tuning;
  options.gradient = gradient;
  options.marginal_rounding = marginal_epsilon();
  return options;
}

std::string TransportTask::row_address() const {
  return a ? a->dataset.address() : "the default row marginal";
}

std::string TransportTask::col_address() const {
  return b ? b->dataset.address() : "the default column marginal";
}

double TransportTask::marginal_epsilon() const {
  double epsilon = std::numeric_limits<double>::epsilon();
  for (const auto* operand : {&a, &b}) {
    if (*operand) epsilon = std::max(epsilon, rounding_of(**operand));
  }
  return epsilon;
}

HeadNeeds transport_needs(const TransportTask& task, std::size_t element_size, Index ranks) {
  const AttentionInput& input = task.input;
  constexpr auto number = static_cast<std::int64_t>(sizeof(double));
  HeadNeeds needs;
  // Exact transport and verbs with several problems also make passes by columns.
  const bool by_rows = task.is_of_scheme() && !task.diverges;
  needs.ranks = by_rows ? rank_rows(input, ranks) : RankRows{ranks};
  needs.parts = parts_of_problem(Order::row_panels, false, input.queries, input.keys, element_size);
  const Index iterations = task.solver.stopping.most_iterations();
  needs.result_bytes = 4 * task.lines() * (input.queries + input.keys) * number;
  // Twice, since the lists grow one element at a time.
  constexpr double most_bytes = 0x1p62;
  if (task.diverges) {
    needs.result_bytes +=
        divergence_bytes(input.queries, input.keys, task.has_points() ? &input.energy() : nullptr,
                         task.has_points() ? input.q->cols : 0, element_size);
  }
  needs.result_bytes += gradient_result_bytes(task, element_size);
  const double errors = 2.0 * static_cast<double>(input.problems) *
                        static_cast<double>(iterations) * static_cast<double>(number);
  if (task.emits("error")) needs.kept_bytes = static_cast<Index>(std::min(errors, most_bytes));
  needs.kept_bytes += gradient_sum_bytes(task);
  if (!task.uses_simplex()) {
    needs.useful_bytes =
        useful_sinkhorn_bytes(task.solver, input.queries, input.keys, element_size, needs.ranks);
  }
  if (task.histograms) {
    needs.work_bytes = [&task, element_size](int threads, std::int64_t limit) {
      return std::max(averaging_bytes(task, element_size, threads),
                      dual_gradient_work_bytes(task, element_size, threads)) +
             solution_gradient_work_bytes(task, element_size, threads, limit);
    };
    return needs;
  }
  // The allowed pairs, in bits, and the flow over them; O(Lq + Lk) for a band.
  const bool by_pair = input.scores || input.mask || input.bias;
  const std::int64_t checked =
      (by_pair ? input.queries * input.keys / 4 : 0) +
      (32 * (input.queries + input.keys) + (task.start ? input.keys : 0)) * number;
  needs.work_bytes = [&task, &input, checked, element_size](int threads, std::int64_t limit) {
    // A divergence also has square problems.
    const Index longer = std::max(input.queries, input.keys);
    const Index rows = task.diverges ? longer : input.queries;
    const Index cols = task.diverges ? longer : input.keys;
    const std::int64_t solver_bytes =
        task.exact ? exact_transport_bytes(task.exact->method, rows, cols, element_size, threads)
                   : sinkhorn_solver_bytes(rows, cols, element_size, threads);
    return std::max(solver_bytes, dual_gradient_work_bytes(task, element_size, threads)) +
           solution_gradient_work_bytes(task, element_size, threads, limit) + checked;
  };
  return needs;
}

void report_transport_cost(const cli::Arguments& arguments, const TransportTask& task,
                           cli::Report& report) {
  const AttentionInput& input = task.input;
  const std::size_t element = task.f64 ? sizeof(double) : sizeof(float);
  const MemoryPlan plan =
      plan_memory(input, element, transport_needs(task, element, arguments.ranks),
                  arguments.threads, arguments.memory);
  const auto problems = static_cast<double>(input.own_problems());
  const auto iterations = static_cast<double>(task.solver.stopping.most_iterations());
  constexpr double number = sizeof(double);
  double bytes = 0;
  if (task.emits("plan")) {
    bytes += pairs_elements(input.queries, input.keys) * static_cast<double>(element);
  }
  const auto lines = static_cast<double>(task.lines());
  if (task.emits("barycentre")) bytes += static_cast<double>(input.queries) * number;
  if (task.emits("row_potential")) bytes += lines * static_cast<double>(input.queries) * number;
  if (task.emits("col_potential")) bytes += lines * static_cast<double>(input.keys) * number;
  if (task.emits("error")) bytes += iterations * number;
  bytes *= problems;
  bytes += gradient_file_bytes(task, element);
  // If the kernel is kept, scores are computed once; two products per iteration and histogram. The
  // number of pivots is not known.
  const bool kept = plan.useful_bytes > 0 || task.uses_simplex();
  const double passes = kept ? 0 : (task.histograms ? 2 * lines : 1) * iterations;
  const double products = task.uses_simplex() ? 0 : 4 * lines * iterations * input.pairs();
  const double flops = input.score_flops(Scheme::sinkhorn, passes + 2) + products;
  const Shape shape = join(input.leading, {input.queries, input.keys});
  auto& result = report.result();
  result["shape"] = shape;
  const std::string problem =
      fmt::format("of {} in {}", times(shape), task.f64 ? "float64" : "float32");
  const std::string words =
      task.uses_simplex()
          ? "network simplex " + problem
          : fmt::format("sinkhorn {}, at most {}", problem,
                        cli::counted(task.solver.stopping.most_iterations(), "iteration"));
  report_run_cost(
      {words, plan.bytes, bytes, arguments.compress > 0,
       fmt::format("{:.3g} flops {}", flops, task.uses_simplex() ? "without pivots" : "at most")},
      report);
  result["flops"] = flops;
}

}  // namespace attn::tools
