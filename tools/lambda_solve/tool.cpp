// lambda-solve: the Fenchel dual of attention, query by query, certified.

#include <optional>

#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/words.hpp"
#include "common/frame/section_tool.hpp"
#include "common/frame/tool.hpp"
#include "common/process/numeric_libraries.hpp"
#include "common/runs/ranks.hpp"
#include "common/tables/table_options.hpp"
#include "lambda_solve/dual_steps.hpp"
#include "reports/dual_reporter.hpp"

namespace attn::tools {
namespace {

cli::Declaration declare() {
  using Range = cli::Declaration::Range;
  cli::Declaration d("lambda-solve",
                     "Solves the dual of attention as inference, where softmax is the first step",
                     cli::Role::transform);
  d.about(
      "For templates t_i with preferences u_i and evidence z, finds the lambda that maximises "
      "<lambda, mu + z> - |lambda|^2/(2 alpha) - log sum_i u_i exp<t_i, lambda>, with mu = sum_i "
      "u_i t_i. This is the dual of min_p alpha/2 |mu + z - sum_i p_i t_i|^2 + KL(p|u), where p_i "
      "is proportional to u_i exp<t_i, lambda>; at lambda = alpha z, p is softmax attention. Each "
      "answer comes with its duality gap.");
  d.about(
      "Reads q (..., Lq, d), k (..., Lk, d) and optionally v (templates k/sqrt(d), evidence q; q "
      "may have a multiple of k's heads); or x, wq, wk; or t (..., n, d), z (..., Q, d). "
      "Preferences combine preference (..., n) or (..., Q, n), mask, bias (as exp(bias)), rel_bias "
      "and key_length; without these, they are uniform. A query without an allowed template has "
      "lambda 0; the report counts it as empty. All computation is in float64; --precision sets "
      "the type of p and out, and the default tolerance.");
  d.section("Problem");
  declare_score_options(d, false, ScoreUse::dual);
  d.choice("divergence", {"kl", "ot"},
           "Divergence of p from u. kl: Kullback-Leibler. ot: entropic optimal transport from u to "
           "p, with the dataset cost (n, n) >= 0 (row: to, column: from; inf forbids) and --gamma.",
           "kl");
  d.number(
      "noise", "V",
      "Variance of the errors of each component of the evidence, in place of --alpha: alpha is "
      "1/(W V) with --weight W.",
      Range::positive());
  d.number("weight", "W", "With --noise: the weight of the divergence.", Range::positive(), 1);
  d.number("radius", "R",
           "Finds the p nearest to u with |mu + z - h|^2 <= R. It takes the place of --alpha: each "
           "query has an alpha of its own, at which the squared distance is R. The gap is that of "
           "this problem.",
           Range::positive());
  d.number("gamma", "G", "Weight of the entropy in ot.", Range::positive());
  d.number("template-scale", "S",
           "Factor of the templates k, x or t; the evidence is divided such that the scores <t, z> "
           "remain. The deviation grows with it, since lambda is penalised in the space of the "
           "templates.",
           Range::positive())
      .default_words("the factor of the scores, 1/sqrt(d) for scaled-dot, with evidence as it is");
  d.section("Solution");
  d.number("tolerance", "E",
           "A query has converged when its gap is at most E (1 + |primal|) and lambda is within 10 "
           "E min(1, |lambda|) of the optimum, as far as rounding allows.",
           Range::positive())
      .default_words("1e-10, or 1e-8 for float32");
  d.number(
      "gradient-tolerance", "E",
      "A query has converged when the norm of its gradient is at most E; replaces --tolerance.",
      Range::positive());
  d.integer("max-iterations", "N", "Maximum number of Newton steps per query.", 1, Index{1} << 40,
            1000);
  std::vector<std::string> names;
  for (const DualResultKind& kind : dual_result_kinds()) names.push_back(kind.name);
  d.choices(
      "emit", names,
      "Results to write. h: sum_i p_i t_i. gap, gradient_norm, iterations: "
      "per query. relative_deviation: |lambda - alpha z|/|lambda|. h_first_order, h_second_order: "
      "h from the closed-form approximations. out: sum_i p_i v_i. out_deviation: relative "
      "difference between softmax attention and out. alpha: per query, with --radius. lambda and "
      "the three h are always float64.");
  d.default_words("all but p");
  d.choice("average", {"heads"},
           "Also reports the distribution over queries of the mean of relative_deviation over the "
           "heads.");
  declare_table_options(d, "group and head");
  d.several_inputs();
  declare_sections(d, "heads");
  declare_ranks(d);
  declare_restart(d);
  declare_dual_datasets(d);
  d.example("lambda-solve --causal layer3.h5 -o exact.h5",
            "Measure how far a layer's attention is from exact inference.");
  d.example(
      "lambda-solve --each '/text/*/layer*' --map q=Q,k=K,v=V --causal \\\n"
      "      --emit relative_deviation,out_deviation --only dump.h5 -o d.h5",
      "The same for all layers of a model's dump.");
  d.example("lambda-solve --from templates --radius 0.5 problem.h5 -o near.h5",
            "The distribution nearest to the preferences that explains the evidence.");
  d.example("lambda-solve --from projection --emit lambda layer3.h5 | tensor-info",
            "From x, wq and wk.");
  d.exit_status(
      1, "some query did not converge; the results are written with attn_status not_converged");
  d.exit_status(4, "for some query no p is within --radius, or logits are beyond float64");
  return d;
}

class SolveDual : public SectionTool<DualTask> {
 public:
  SolveDual(const cli::Arguments& arguments, cli::Report& report)
      : SectionTool(arguments, report), table_(arguments, dual_table_columns()) {}

 private:
  // A long head is several blocks of queries.
  std::string unit() const override { return "block"; }

  void report_cost(const DualTask& task) override { report_dual_cost(arguments(), task, report()); }

  bool holds_numbers(const DualTask& task) const override { return task.cost_dataset.has_value(); }

  void begin(Index problems) override {
    progress_.emplace(arguments(), "dual", static_cast<double>(problems), "heads");
    const bool several = sections().several();
    const bool text = !table_.in_place_of_text();
    reporter_.emplace(ReportOptions{
        .several = several, .each = text && (!several || arguments().verbose), .all = text});
  }

  void compute(const DualTask& task, const std::string& /*label*/,
               std::optional<io::OutputBundle> results) override {
    std::vector<DualHead> found =
        solve_section(arguments(), task, std::move(results), checkpoint(), *progress_, report());
    const DualNotes notes{section(),
                          sections().description(),
                          sections().several(),
                          arguments().given("average"),
                          task.heading(),
                          std::move(found)};
    if (is_shard()) keep_for_join(notes_of(notes));
    if (task.input.share) {  // tensor-join makes the report on all heads
      for (const DualHead& head : notes.heads) {
        stopped_ = stopped_ || head.converged < head.problems();
      }
      return;
    }
    const auto averaged = reporter_->add(notes, report());
    for (auto& row : dual_table_rows(notes.heading, section(), notes.heads, averaged)) {
      table_.add(std::move(row));
    }
  }

  cli::Outcome conclude(const GroupReport& groups) override {
    if (divides_problems()) return shard_outcome(!stopped_, ", some queries not converged");
    table_.print(report());
    cli::Outcome outcome = reporter_->conclude(sections().description(), groups, report());
    outcome.commit = table_.commit();
    return outcome;
  }

  TableOutput table_;
  std::optional<cli::Progress> progress_;
  std::optional<DualReporter> reporter_;
  bool stopped_ = false;  // some query of a shard did not converge
};

cli::Outcome run(const cli::Arguments& arguments, cli::Report& report) {
  require_no_table_of_shard(arguments);
  return SolveDual(arguments, report).run();
}

}  // namespace

const ToolDefinition lambda_solve = {declare, run, numeric_libraries};

}  // namespace attn::tools
