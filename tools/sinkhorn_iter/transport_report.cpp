#include "sinkhorn_iter/transport_steps.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "attnkit/stopping.hpp"
#include "cli/words.hpp"
#include "common/frame/bundles.hpp"
#include "common/options/padding_words.hpp"
#include "common/tables/convergence_words.hpp"

namespace attn::tools {
namespace {

std::optional<Convergence> slowest(const std::vector<TransportResult>& problems) {
  std::optional<Convergence> found;
  for (const TransportResult& result : problems) found = slower(found, result.figures.convergence);
  return found;
}

// The largest residual of gradients whose equations are not solved; 0 if all are.
double unsolved_gradient(const TransportTask& task, const std::vector<TransportResult>& problems) {
  const double tolerance = usual_tolerance(task.f64 ? sizeof(double) : sizeof(float));
  double most = 0;
  for (const TransportResult& result : problems) {
    const double residual = result.figures.through_solution.residual;
    if (residual <= tolerance) continue;
    // NaN counts as the largest.
    most = residual >= 0 ? std::max(most, residual) : std::numeric_limits<double>::infinity();
  }
  return most;
}

// The largest errors among plans that are no solutions, if gradients are requested, and of their
// gradients, NaN if one is unknown.
struct UnsolvedPlans {
  double error = 0;
  double gradient_error = 0;

  explicit UnsolvedPlans(const std::vector<TransportResult>& problems) {
    for (const TransportResult& result : problems) {
      const SolutionGradientFigures& figures = result.figures.through_solution;
      error = std::max(error, figures.plan_error);
      // NaN stays.
      if (!(figures.error <= gradient_error)) gradient_error += figures.error - gradient_error;
    }
  }

  std::string words(const TransportTask& task) const {
    const bool can_unroll = !task.histograms && !task.diverges;
    return fmt::format(
        "the sums of the plan are off by {:.2g}: gradients are those at a solution, {}; give "
        "--tolerance, or more --iterations{}",
        error,
        std::isnan(gradient_error)
            ? "and may be wrong at this plan, even in sign"
            : fmt::format("from which they are off by about {:.2g} of their length",
                          gradient_error),
        can_unroll ? ", or --gradient unrolled for the gradients of these iterations" : "");
  }
};

// The options that save iterations and are not in use.
std::string savings(const TransportTask& task) {
  if (task.histograms) return "";
  const SinkhornOptions& solver = task.solver;
  std::string options;
  if (solver.relaxation == 1) options = task.penalties ? "--relax 1.4" : "--relax 1.8";
  if (!solver.anneals) options += options.empty() ? "--anneal" : " or --anneal";
  return options;
}

nlohmann::ordered_json figures_of(const TransportTask& task, const TransportResult& result) {
  const TransportProblem& figures = result.figures;
  const double nothing = std::numeric_limits<double>::quiet_NaN();
  const bool solved = !result.infeasible();
  // Adding 0 turns −0 into 0.
  const auto known = [&](double value) { return solved ? value + 0.0 : nothing; };
  nlohmann::ordered_json json;
  json["iterations"] = figures.iterations;
  json["status"] = result.status_name();
  add_convergence(figures.convergence, json);
  if (figures.tolerance) json["tolerance"] = *figures.tolerance;
  if (figures.rescaled > 0) json["rescaled"] = figures.rescaled;
  json["row_error"] = known(figures.row_error);
  json["col_error"] = known(figures.col_error);
  if (task.penalties) json["mass"] = known(figures.mass);
  json["value"] = known(figures.value);
  if (!std::isnan(figures.divergence.value)) {
    json["divergence"] = figures.divergence.value;
    json["sharp_divergence"] = figures.divergence.sharp;
    json["lower"] = figures.divergence.lower;
    json["upper"] = figures.divergence.upper;
  }
  json["primal"] = known(figures.primal);
  json["dual"] = known(figures.dual);
  json["gap"] = known(figures.gap);
  if (result.has_gradient() && task.gradient == SolutionGradient::implicit) {
    json["gradient_iterations"] = figures.through_solution.iterations;
    json["gradient_residual"] = figures.through_solution.residual;
    json["gradient_plan_error"] = figures.through_solution.plan_error;
    json["gradient_error"] = known(figures.through_solution.error);
  }
  if (task.exact) {
    json["relative_gap"] = known(figures.gap / std::abs(figures.primal));
    json["gap_floor"] = known(result.exact.rounding);
    json["solver"] = method_word(figures.exact_method);
    if (!task.uses_simplex()) json["epsilon"] = known(result.exact.epsilon);
  }
  if (solved) return json;
  const Feasibility& found = figures.feasibility;
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

const char* exact_advice(const TransportTask& task, const TransportResult& worst) {
  if (!worst.figures.limited_by_rounding) return "; try a larger --iterations or --gap";
  return task.f64 ? ", which is less than the rounding of float64 allows; try a larger --gap"
                  : ", which is less than the rounding of float32 allows; try --precision f64 or a "
                    "larger --gap";
}

}  // namespace

cli::Outcome conclude_transport(const TransportTask& task, const TransportResults& results,
                                cli::Report& report) {
  const TransportResult& worst = results.worst();
  auto& json = report.result();
  json = figures_of(task, worst);
  const TransportProblem& figures = worst.figures;
  if (figures.tolerance) report.params()["tolerance"] = *figures.tolerance;
  if (task.histograms) json["histograms"] = task.lines();
  json["queries"] = task.input.queries;
  json["keys"] = task.input.keys;
  add_padding(task.input.padding(), json);
  auto problems = nlohmann::ordered_json::array();
  for (const TransportResult& result : results.problems) {
    nlohmann::ordered_json each;
    each["index"] = unravel(result.problem, task.input.leading);
    each.update(figures_of(task, result));
    problems.push_back(std::move(each));
  }
  json["problems"] = std::move(problems);
  if (worst.infeasible()) {
    report.status("infeasible");
    throw Error(Failure::numerical, worst.refusal, worst.hint);
  }
  cli::Outcome outcome;
  const double off_by = figures.row_error + figures.col_error;
  outcome.summary = fmt::format(
      "{} in {}, {}, {}, {} {:.6g}",
      times(join(task.input.leading, {task.input.queries, task.input.keys})),
      task.f64 ? "float64" : "float32",
      cli::counted(figures.iterations, task.uses_simplex() ? "pivot" : "iteration"),
      task.penalties
          ? fmt::format("mass {:.6g}, sums off by {:.2g}", figures.mass, off_by)
          : fmt::format("marginals off by {:.2g} of a total of {:.6g}", off_by, figures.mass),
      task.of_cost ? "cost" : "score", json["value"].get<double>());
  if (!std::isnan(figures.divergence.value)) {
    outcome.summary += fmt::format(", divergence {:.6g}", figures.divergence.value);
  } else if (std::isfinite(figures.gap)) {
    outcome.summary += fmt::format(", gap {:.2g}", json["gap"].get<double>());
  }
  outcome.summary += padding_words(task.input.padding());
  if (const double residual = unsolved_gradient(task, results.problems); residual > 0) {
    outcome.summary += fmt::format(
        ", gradients not converged: relative residual {:.2g} of their equations; try more "
        "--iterations",
        residual);
    report.status("not_converged");
    outcome.status = 1;
  }
  if (const UnsolvedPlans unsolved(results.problems); unsolved.error > 0) {
    report.warn(unsolved.words(task));
    report.status("not_converged");
    outcome.status = 1;
  }
  if (task.exact && figures.status == SolveStatus::not_converged) {
    outcome.summary += fmt::format(", not converged to a gap of {:g} of the cost{}",
                                   task.exact->gap, exact_advice(task, worst));
    report.status("not_converged");
    outcome.status = 1;
  } else if (figures.status == SolveStatus::not_converged) {
    outcome.summary += ", not converged" +
                       convergence_words(slowest(results.problems), "--iterations", savings(task));
    report.status("not_converged");
    outcome.status = 1;
  }
  return outcome;
}

}  // namespace attn::tools
