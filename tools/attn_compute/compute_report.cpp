#include "attn_compute/compute_steps.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attn_compute/repeated_scheme.hpp"
#include "cli/words.hpp"
#include "common/frame/bundles.hpp"
#include "common/options/scheme_settings.hpp"
#include "common/results/result_kinds.hpp"
#include "common/results/result_table.hpp"
#include "common/tables/convergence_words.hpp"
#include "scheme/scheme_description.hpp"

namespace attn::tools {
namespace {

// The part of the summary line after the shape.
std::string remarks(const std::string& scheme, const Totals& totals) {
  std::string text = padding_words(totals.padding);
  if (totals.empty_queries > 0) {
    const bool transports =
        !is_repeated(scheme) && description_of(scheme_of(scheme).value()).is_transport();
    text += ", " + cli::counted(totals.empty_queries, "query has", "queries have") +
            (transports ? " no source: no allowed key has a preference" : " no key to attend to");
  }
  if (totals.masked_keys > 0) {
    text +=
        ", " + cli::counted(totals.masked_keys, "key is", "keys are") + " masked for all queries";
  }
  if (is_repeated(scheme) || description_of(scheme_of(scheme).value()).is_iterated()) {
    text += ", " + cli::counted(totals.worst.iterations, "iteration");
  }
  if (totals.worst.status == SolveStatus::not_converged) {
    text += fmt::format(", column sums off by {:.2g}", totals.worst.column_error) +
            ", not converged" + convergence_words(totals.worst.convergence, "--iterations");
  }
  return text;
}

}  // namespace

void record_results(const cli::Arguments& arguments, const ComputeOptions& options,
                    const AttentionInput& input, bool f64, const Totals& totals,
                    io::OutputBundle& output) {
  const SchemeDescription& scheme = description_of(options.scheme.scheme);
  for (const std::string& name : scheme_attributes()) output.remove_attribute(name);
  for (const std::string& name : score_attributes()) output.remove_attribute(name);
  write_settings(score_settings(options.scores, options.scheme.scheme, input.causal), output);
  if (scheme.has_preference()) {
    output.attribute("attn_alpha", options.scores.alpha);
  }
  if (scheme.is_transport()) output.attribute("attn_gamma", options.scores.gamma);
  output.attribute("attn_scheme", options.name);
  if (options.repetition) write_settings(repetition_settings(options), output);
  output.attribute("attn_precision", precision_name(options.scores, f64));
  output.attribute("attn_status", status_name(totals.worst.status));
  if (input.share) {
    input.share->rank({{"attn_status"}, {static_cast<double>(totals.worst.status)}});
    input.share->rank({{"attn_iterations"}, {static_cast<double>(totals.worst.iterations)}});
  }
  if (scheme.is_mixture() && arguments.number("hybrid")) {
    output.attribute("attn_hybrid", *arguments.number("hybrid"));
  }
  if (scheme.is_iterated()) {
    output.attribute("attn_iterations", static_cast<std::int64_t>(totals.worst.iterations));
    if (!options.scheme.stopping.fixed()) {
      const std::size_t element = f64 ? sizeof(double) : sizeof(float);
      output.attribute("attn_tolerance",
                       options.scheme.stopping.tolerance.value_or(usual_tolerance(element)));
    }
  }
}

cli::Outcome conclude(const ComputeOptions& options, const AttentionInput& input, bool f64,
                      const ComputeTotals& found, cli::Report& report) {
  const Totals& totals = found.scheme;
  auto& result = report.result();
  result["scheme"] = options.name;
  result["problems"] = input.own_problems();
  result["queries"] = input.queries;
  result["keys"] = input.keys;
  result["status"] = status_name(totals.worst.status);
  add_convergence(totals.worst.convergence, result);
  result["iterations"] = totals.worst.iterations;
  result["column_error"] = totals.worst.column_error;
  result["empty_queries"] = totals.empty_queries;
  result["masked_keys"] = totals.masked_keys;
  add_padding(totals.padding, result);
  if (!found.log_likelihood.empty()) {
    result["log_likelihood"] = found.log_likelihood.back();
    if (options.repetition) result["log_likelihood_by_iteration"] = found.log_likelihood;
  }

  cli::Outcome outcome;
  outcome.summary = fmt::format("{}, {} in {}", options.name,
                                times(join(input.leading, {input.queries, input.keys})),
                                precision_words(options.scores, f64)) +
                    remarks(options.name, totals);
  if (!found.log_likelihood.empty()) {
    outcome.summary += fmt::format(", log-likelihood {:.10g}", found.log_likelihood.back());
  }
  if (totals.worst.status == SolveStatus::not_converged) {
    report.status("not_converged");
    outcome.status = 1;
  }
  return outcome;
}

cli::Outcome conclude_groups(const GroupReport& groups, const std::string& scheme, Index heads,
                             const Totals& totals, cli::Report& report) {
  groups.write(report);
  report.result()["status"] = status_name(totals.worst.status);
  add_convergence(totals.worst.convergence, report.result());
  cli::Outcome outcome;
  outcome.status = totals.worst.status == SolveStatus::not_converged ? 1 : 0;
  outcome.summary = fmt::format("{}, {} in {}", scheme, cli::counted(heads, "head"),
                                cli::counted(groups.size(), "group")) +
                    remarks(scheme, totals);
  return outcome;
}

}  // namespace attn::tools
