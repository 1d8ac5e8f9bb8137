#include "sinkhorn_iter/transport_steps.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "cli/words.hpp"
#include "common/frame/bundles.hpp"
#include "common/options/padding_words.hpp"
#include "common/tables/convergence_words.hpp"

namespace attn::tools {
namespace {

std::optional<Convergence> slowest(const std::vector<TransportResult>& problems) {
  std::optional<Convergence> found;
  for (const TransportResult& result : problems) found = slower(found, result.summary.convergence);
  return found;
}

// The largest residual of gradients that did not converge; 0 if all did.
double unsolved_gradient(const std::vector<TransportResult>& problems) {
  double residual = 0;
  for (const TransportResult& result : problems) {
    if (!result.gradient || !result.gradient->unsolved) continue;
    // NaN counts as the largest.
    const double one = result.gradient->residual;
    residual = one >= 0 ? std::max(residual, one) : std::numeric_limits<double>::infinity();
  }
  return residual;
}

// The largest error among plans that are no solutions, if gradients are requested.
double unsolved_plan(const std::vector<TransportResult>& problems) {
  double error = 0;
  for (const TransportResult& result : problems) {
    if (result.gradient) error = std::max(error, result.gradient->plan_error);
  }
  return error;
}

// The options that save iterations and are not in use.
std::string savings(const TransportTask& task) {
  if (task.histograms) return "";
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
  // Adding 0 turns −0 into 0.
  const auto known = [&](double value) { return solved ? value + 0.0 : nothing; };
  nlohmann::ordered_json json;
  json["iterations"] = summary.iterations;
  json["status"] = result.status_name();
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
  if (result.gradient) {
    json["gradient_iterations"] = result.gradient->iterations;
    json["gradient_residual"] = result.gradient->residual;
    json["gradient_plan_error"] = result.gradient->plan_error;
  }
  if (task.exact) {
    json["relative_gap"] = known(summary.gap / std::abs(summary.primal));
    json["gap_floor"] = known(result.gap_floor);
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

const char* exact_advice(const TransportTask& task, const TransportResult& worst) {
  if (!worst.limited_by_rounding) return "; try a larger --iterations or --gap";
  return task.f64 ? ", which is less than the rounding of float64 allows; try a larger --gap"
                  : ", which is less than the rounding of float32 allows; try --precision f64 or a "
                    "larger --gap";
}

}  // namespace

cli::Outcome conclude_transport(const TransportTask& task, const TransportResults& results,
                                cli::Report& report) {
  const TransportResult& worst = results.worst();
  auto& json = report.result();
  json = figures(task, worst);
  if (worst.tolerance) report.params()["tolerance"] = *worst.tolerance;
  if (task.histograms) json["histograms"] = task.lines();
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
  if (const double residual = unsolved_gradient(results.problems); residual > 0) {
    outcome.summary += fmt::format(
        ", gradients not converged: relative residual {:.2g} of their equations; try more "
        "--iterations",
        residual);
    report.status("not_converged");
    outcome.status = 1;
  }
  if (const double error = unsolved_plan(results.problems); error > 0) {
    report.warn(
        fmt::format("the sums of the plan are off by {:.2g}: gradients are those at a solution, "
                    "and may be wrong "
                    "at this plan, even in sign; give --tolerance, or more --iterations",
                    error));
    report.status("not_converged");
    outcome.status = 1;
  }
  if (task.exact && summary.status == SolveStatus::not_converged) {
    outcome.summary += fmt::format(", not converged to a gap of {:g} of the cost{}",
                                   task.exact->gap, exact_advice(task, worst));
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
